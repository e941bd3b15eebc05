// Asks the functions by which a llama.cpp tree reads UTF-8 and matches characters, and counts wrong answers.
//
// Static functions are asked too, so the tree's src/llama-grammar.cpp is included. What is right is computed from a list
// on standard input, one line for each scalar value but U+0000: code point and encoding in hex. Nothing here knows how
// UTF-8 is encoded. Prints a line for each of the two functions: name, cases, wrong ones, the first wrong one.

#include "llama-grammar.cpp"

#include <cstdio>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

// Bytes are packed into a number, the first one highest; none of them is NUL.
struct prefix {
    uint32_t value; // the bits read so far
    int missing;    // bytes
    size_t first;   // the scalar values whose encodings begin with it
    size_t last;
};

static std::vector<uint32_t> scalars;
static std::vector<uint32_t> encodings;
static std::unordered_map<uint32_t, uint32_t> whole; // encoding -> code point
static std::unordered_map<uint32_t, prefix> partial; // proper prefix of an encoding
static std::vector<uint32_t> prefixes;               // the same, in the order of code points

static bool read_list() {
    unsigned code_point, packed;
    while (scanf("%x %x", &code_point, &packed) == 2) {
        const size_t index = scalars.size();
        scalars.push_back(code_point);
        encodings.push_back(packed);
        whole[packed] = code_point;
        for (int missing = 1; missing < 4 && packed >> 8 * missing; missing++) {
            const uint32_t value = code_point >> 6 * missing;
            const auto [found, is_new] = partial.insert({ packed >> 8 * missing, { value, missing, index, index } });
            if (is_new) {
                prefixes.push_back(found->first);
            }
            prefix & seen = found->second;
            if (seen.value != value || seen.missing != missing || index - seen.last > 1) {
                return false; // the list is in another order than thought
            }
            seen.last = index;
        }
    }
    return !scalars.empty();
}

struct tally {
    const char * name;
    long cases = 0;
    long wrong = 0;
    std::string first;

    template <typename Describe> void note(bool right, Describe describe) {
        cases++;
        if (!right && wrong++ == 0) {
            first = describe();
        }
    }

    void print() const {
        printf("%s %ld %ld %s\n", name, cases, wrong, first.c_str());
    }
};

static std::string hex(uint32_t number) {
    char text[16];
    snprintf(text, sizeof text, "%x", number);
    return text;
}

// decode_utf8

struct decoding {
    std::vector<uint32_t> code_points;
    uint32_t value; // of what is begun at the end
    int missing;    // -1 when no well-formed text begins like this

    bool operator==(const decoding & other) const {
        return code_points == other.code_points && value == other.value && missing == other.missing;
    }
};

static decoding right_decoding(const std::string & bytes) {
    decoding result = { {}, 0, 0 };
    uint32_t begun = 0;
    for (const char byte : bytes) {
        begun = begun << 8 | (uint8_t) byte;
        const auto found = whole.find(begun);
        if (found != whole.end()) {
            result.code_points.push_back(found->second);
            begun = 0;
        } else if (partial.count(begun) == 0) {
            return { {}, 0, -1 };
        }
    }
    if (begun != 0) {
        result.value   = partial.at(begun).value;
        result.missing = partial.at(begun).missing;
    }
    return result;
}

// what the tree decodes from tokens in turn: cut behind byte i where bit i of cuts is set
static decoding tree_decoding(const std::string & bytes, unsigned cuts) {
    llama_partial_utf8 state = { 0, 0 };
    decoding result = { {}, 0, 0 };
    for (size_t begin = 0, end; begin < bytes.size(); begin = end) {
        for (end = begin + 1; end < bytes.size() && !(cuts >> (end - 1) & 1); end++) {}
        auto [code_points, next] = decode_utf8(bytes.substr(begin, end - begin), state);
        code_points.pop_back(); // the terminating 0
        if (next.n_remain < 0) {
            return { code_points, 0, -1 };
        }
        result.code_points.insert(result.code_points.end(), code_points.begin(), code_points.end());
        state = next;
    }
    result.value   = state.n_remain > 0 ? state.value : 0;
    result.missing = state.n_remain;
    return result;
}

static void ask_decoding(tally & count, const std::string & bytes, const std::vector<unsigned> & ways) {
    const decoding right = right_decoding(bytes);
    for (const unsigned cuts : ways) {
        count.note(tree_decoding(bytes, cuts) == right, [&] {
            std::string text;
            for (size_t i = 0; i < bytes.size(); i++) {
                text += hex((uint8_t) bytes[i]) + (cuts >> i & 1 ? "|" : " ");
            }
            return text;
        });
    }
}

// every string of so many of the bytes
static void ask_strings(
        tally & count, const std::string & bytes, size_t length, const std::vector<unsigned> & ways,
        const std::string & begun = "") {
    if (begun.size() == length) {
        ask_decoding(count, begun, ways);
        return;
    }
    for (const char byte : bytes) {
        ask_strings(count, bytes, length, ways, begun + byte);
    }
}

static std::vector<unsigned> all_ways(size_t length) {
    std::vector<unsigned> ways;
    for (unsigned cuts = 0; cuts < 1u << (length - 1); cuts++) {
        ways.push_back(cuts);
    }
    return ways;
}

static void ask_all_decodings(tally & count) {
    std::string every;
    for (int byte = 1; byte < 256; byte++) {
        every += (char) byte;
    }
    // first and last byte of each column of the Unicode Standard's table 3-7, and of what no column has
    const std::string borders =
        "\x01\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1"
        "\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xF7\xF8\xFB\xFC\xFF";
    for (size_t length = 1; length <= 3; length++) {
        ask_strings(count, every, length, { 0 });
    }
    for (size_t length = 2; length <= 4; length++) {
        ask_strings(count, borders, length, all_ways(length));
    }
    for (const uint32_t packed : encodings) {
        std::string bytes;
        for (int shift = 24; shift >= 0; shift -= 8) {
            if (packed >> shift) {
                bytes += (char) (packed >> shift & 0xFF);
            }
        }
        ask_decoding(count, bytes, all_ways(bytes.size()));
    }
}

// llama_grammar_match_partial_char

using ranges = std::vector<std::pair<uint32_t, uint32_t>>;

static std::vector<llama_grammar_element> elements(const ranges & in, bool inverse) {
    std::vector<llama_grammar_element> result;
    for (const auto & [low, high] : in) {
        const auto type = !result.empty() ? LLAMA_GRETYPE_CHAR_ALT : inverse ? LLAMA_GRETYPE_CHAR_NOT : LLAMA_GRETYPE_CHAR;
        result.push_back({ type, low });
        if (low != high) {
            result.push_back({ LLAMA_GRETYPE_CHAR_RNG_UPPER, high });
        }
    }
    result.push_back({ LLAMA_GRETYPE_END, 0 });
    return result;
}

static size_t index_from(uint32_t code_point) {
    return std::lower_bound(scalars.begin(), scalars.end(), code_point) - scalars.begin();
}

static void ask_class(tally & count, const ranges & in) {
    static std::vector<char> member;
    static std::vector<uint32_t> below; // members before each index
    member.assign(scalars.size(), false);
    for (const auto & [low, high] : in) {
        const size_t end = high == UINT32_MAX ? scalars.size() : index_from(high + 1);
        std::fill(member.begin() + index_from(low), member.begin() + end, true);
    }
    below.assign(1, 0);
    for (const char is_in : member) {
        below.push_back(below.back() + is_in);
    }
    for (const bool inverse : { false, true }) {
        const auto asked = elements(in, inverse);
        const auto describe = [&](const std::string & after) {
            std::string text = inverse ? "[^" : "[";
            for (const auto & [low, high] : in) {
                text += hex(low) + "-" + hex(high) + " ";
            }
            return text + "] after " + after;
        };
        for (const uint32_t packed : prefixes) {
            const prefix & p = partial.at(packed);
            const size_t all = p.last - p.first + 1, in_class = below[p.last + 1] - below[p.first];
            const bool right = (inverse ? all - in_class : in_class) > 0;
            const bool said  = llama_grammar_match_partial_char(asked.data(), { p.value, p.missing });
            count.note(said == right, [&] { return describe(hex(packed)); });
        }
        count.note(!llama_grammar_match_partial_char(asked.data(), { 0, -1 }), [&] { return describe("no prefix"); });
    }
}

static ranges random_class(std::mt19937 & random, const std::vector<uint32_t> & borders) {
    const auto below = [&](uint32_t bound) { return (uint32_t) (random() % bound); };
    ranges result;
    if (below(2)) {
        // what begins with one prefix, in pieces, perhaps without one of them
        const prefix & chosen = partial.at(prefixes[below(prefixes.size())]);
        uint32_t low = scalars[chosen.first];
        const uint32_t high = scalars[chosen.last];
        for (uint32_t pieces = below(5); pieces > 0 && low < high; pieces--) {
            const uint32_t upper = low + below(high - low);
            result.push_back({ low, upper });
            low = upper + 1;
        }
        result.push_back({ low, high });
        for (size_t left = result.size(); left > 1; left--) {
            std::swap(result[left - 1], result[below(left)]);
        }
        if (result.size() > 1 && below(3) == 0) {
            result.pop_back();
        }
        return result;
    }
    for (uint32_t left = 1 + below(8); left > 0; left--) {
        uint32_t ends[2];
        for (uint32_t & end : ends) {
            end = below(2) ? borders[below(borders.size())] : below(0x110000);
        }
        result.push_back({ std::min(ends[0], ends[1]), std::max(ends[0], ends[1]) });
    }
    return result;
}

static void ask_all_matches(tally & count) {
    const std::vector<uint32_t> borders = {
        0x0, 0x61, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0x4E16, 0xCFFF, 0xD000, 0xD7FF, 0xD800, 0xDBFF, 0xDFFF,
        0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF, 0x110000, UINT32_MAX
    };
    for (size_t low = 0; low < borders.size(); low++) {
        for (size_t high = low; high < borders.size(); high++) {
            ask_class(count, { { borders[low], borders[high] } });
        }
    }
    std::mt19937 random(3629);
    for (int classes = 0; classes < 750; classes++) {
        ask_class(count, random_class(random, borders));
    }
    const llama_grammar_element any[] = { { LLAMA_GRETYPE_CHAR_ANY, 0 }, { LLAMA_GRETYPE_END, 0 } };
    for (const uint32_t packed : prefixes) {
        const prefix & p = partial.at(packed);
        const bool said = llama_grammar_match_partial_char(any, { p.value, p.missing });
        count.note(said, [&] { return ". after " + hex(packed); });
    }
}

int main() {
    if (!read_list()) {
        fprintf(stderr, "no list of encodings in ascending order on standard input\n");
        return 2;
    }
    tally decodings = { "decode_utf8" };
    ask_all_decodings(decodings);
    decodings.print();
    tally matches = { "llama_grammar_match_partial_char" };
    ask_all_matches(matches);
    matches.print();
}
