"use strict";
// Bytes and what UTF-8 says of them. Source: The Unicode Standard, section 3.9, table 3-7.

const bytesOf = (hex) => (hex.match(/../g) || []).map((pair) => parseInt(pair, 16));
const hexOf = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
const hexLine = (bytes) => bytes.map(hexOf).join(" ");
const codePointName = (value) => "U+" + value.toString(16).toUpperCase().padStart(4, "0");
const isContinuation = (byte) => byte >= 0x80 && byte <= 0xbf;

// How long a sequence its lead's bits announce; 1 for bytes that announce none.
function announcedLength(lead) {
  if (lead >= 0xc0 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf7) return 4;
  return 1;
}

// The second bytes that table 3-7 allows after a lead, first and last.
function secondBytes(lead) {
  if (lead === 0xe0) return [0xa0, 0xbf];
  if (lead === 0xed) return [0x80, 0x9f];
  if (lead === 0xf0) return [0x90, 0xbf];
  if (lead === 0xf4) return [0x80, 0x8f];
  return [0x80, 0xbf];
}

function leadOffence(lead) {
  if (lead < 0x80) return null;
  if (lead < 0xc0) return "stray-continuation";
  if (lead < 0xc2) return "overlong";
  if (lead >= 0xf8) return "invalid-lead";
  return lead >= 0xf5 ? "beyond-unicode" : null;
}

function secondOffence(lead, second) {
  const [low, high] = secondBytes(lead);
  if (second < low) return "overlong";
  if (second <= high) return null;
  return lead === 0xed ? "surrogate" : "beyond-unicode";
}

// The first offence against well-formed UTF-8: {offence, offset, pending}; a cut-off end is none.
function scan(bytes) {
  let position = 0;
  while (position < bytes.length) {
    const lead = bytes[position];
    const atLead = leadOffence(lead);
    if (atLead) return { offence: atLead, offset: position, pending: 0 };
    const length = announcedLength(lead);
    for (let index = 1; index < length; index++) {
      if (position + index >= bytes.length) {
        return { offence: null, offset: bytes.length, pending: length - index };
      }
      const byte = bytes[position + index];
      if (!isContinuation(byte)) return { offence: "broken-sequence", offset: position + index, pending: 0 };
      const atSecond = index === 1 ? secondOffence(lead, byte) : null;
      if (atSecond) return { offence: atSecond, offset: position + index, pending: 0 };
    }
    position += length;
  }
  return { offence: null, offset: bytes.length, pending: 0 };
}

// Bytes grouped as their lead bits announce: [{start, bytes, length, value, well}]. `value` is what the payload
// bits say when the sequence is whole, whether or not it is well-formed; null when it is cut off.
function sequences(bytes) {
  const found = [];
  let start = 0;
  while (start < bytes.length) {
    const length = announcedLength(bytes[start]);
    let end = start + 1;
    while (end < bytes.length && end < start + length && isContinuation(bytes[end])) end++;
    const own = bytes.slice(start, end);
    const whole = own.length === length && !(length === 1 && own[0] >= 0x80);
    const value = whole
      ? own.slice(1).reduce((sum, byte) => sum * 64 + (byte & 0x3f), length === 1 ? own[0] : own[0] & (0x7f >> length))
      : null;
    found.push({ start, bytes: own, length, value, well: whole && scan(own).offence === null });
    start = end;
  }
  return found;
}

const encode = (value) => [...new TextEncoder().encode(String.fromCodePoint(value))];
const isScalar = (value) => value <= 0x10ffff && !(value >= 0xd800 && value <= 0xdfff);

// Text as it can be shown anywhere: controls, marks of direction and spaces are named, not obeyed.
function visible(text) {
  return text.replace(/[\p{C}\p{Z}]/gu, (c) => (c === " " ? c : `‹${codePointName(c.codePointAt(0))}›`));
}

function characterName(value) {
  if (!isScalar(value)) return codePointName(value);
  const text = visible(String.fromCodePoint(value));
  return text.startsWith("‹") ? codePointName(value) : `${codePointName(value)} “${text}”`;
}

// The code points that a lead and a second byte spell, whatever follows: "U+4000–U+4FFF".
function spelledRange(lead, second) {
  const length = announcedLength(lead);
  const rest = 64 ** (length - 2);
  const low = ((lead & (0x7f >> length)) * 64 + (second & 0x3f)) * rest;
  return rest > 1 ? `${codePointName(low)}–${codePointName(low + rest - 1)}` : codePointName(low);
}

// Which rule the first offence breaks, in words; "" for bytes that break none.
function ruleBroken(bytes) {
  const { offence, offset } = scan(bytes);
  if (!offence) return "";
  const byte = hexOf(bytes[offset]);
  const sequence = sequences(bytes).find((s) => s.start <= offset && offset < s.start + s.bytes.length);
  const lead = hexOf(sequence.bytes[0]);
  const atLead = sequence.start === offset;
  const range = secondBytes(sequence.bytes[0]).map(hexOf).join("–");
  const whole = sequence.value === null ? "" : `; the whole sequence spells ${characterName(sequence.value)}`;
  const spelled = atLead ? "" : spelledRange(sequence.bytes[0], bytes[offset]);
  const shorter =
    sequence.value !== null && isScalar(sequence.value) ? `, which is written ${hexLine(encode(sequence.value))}` : "";
  switch (offence) {
    case "stray-continuation":
      return `${byte} is a continuation byte, and no lead byte asks for one here.`;
    case "invalid-lead":
      return `No UTF-8 sequence begins with ${byte}.`;
    case "broken-sequence":
      return `A continuation byte (80–BF) has to follow here; ${byte} is none, so the code point before it stays unfinished.`;
    case "surrogate":
      return `After ${lead} only ${range} is allowed: ${byte} begins one of the surrogates ${spelled}, which have no encoding${whole}.`;
    case "beyond-unicode":
      return atLead
        ? `${byte} would begin a code point above U+10FFFF, the last one there is${whole}.`
        : `After ${lead} only ${range} is allowed: ${byte} leads to ${spelled}, above the last code point U+10FFFF${whole}.`;
    default:
      return atLead
        ? `${byte} could only begin an overlong two-byte form of an ASCII character${whole}${shorter}.`
        : `After ${lead} only ${range} is allowed: ${byte} begins an overlong form of ${spelled}${whole}${shorter}.`;
  }
}

// Where an output stands: at a boundary, inside a code point, or past an offence.
function standing(bytes) {
  const { offence, pending } = scan(bytes);
  if (offence) return `no longer well-formed UTF-8 (${offence})`;
  if (!pending) return bytes.length ? "at a code point’s boundary" : "at the start: nothing has been written";
  const last = sequences(bytes).at(-1);
  return `inside a ${last.length}-byte code point, ${pending} continuation byte${pending > 1 ? "s" : ""} to come`;
}

// What one byte is within its sequence.
function byteRole(sequence, index) {
  const byte = sequence.bytes[index];
  if (byte < 0x80) return `ASCII ${visible(String.fromCharCode(byte)).replace(/^ $/, "space")}`;
  if (index > 0) return `continuation byte ${index} of ${sequence.length - 1}`;
  return sequence.length > 1 ? `lead byte: ${sequence.length} bytes in all` : isContinuation(byte) ? "continuation byte without a lead" : "no lead byte";
}

// How many high bits of a byte only say what it is; the others carry the code point.
function markerBits(byte) {
  if (byte < 0x80) return 1;
  if (isContinuation(byte)) return 2;
  return announcedLength(byte) > 1 ? announcedLength(byte) + 1 : 8;
}
