/* Puts files through the GGUF reader of a sanitized library, until one of them ends the process.
 *
 * Standard input holds the files, each with its length (32 bits, native) in front. For every file that the
 * process survives, one letter goes to standard output: A accepted, R refused. Standard error is emptied before
 * each file, so that what is there at the end is about the last one. The argument is the CPU time per file in
 * seconds; the reader without data, with data, and (with WITH_LLAMA) the vocabulary-only load are called in turn.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ggml.h"
#if __has_include("gguf.h") /* it was a part of ggml.h once */
#include "gguf.h"
#endif
#ifdef WITH_LLAMA
#include "llama.h"
#endif

static const char * path;

static void quiet(enum ggml_log_level level, const char * text, void * data) {
    (void) level;
    (void) text;
    (void) data;
}

static void allow_cpu_seconds(rlim_t seconds) {
    struct rusage used;
    struct rlimit limit;
    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_CPU, &limit);
    limit.rlim_cur = (rlim_t) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds + 1;
    setrlimit(RLIMIT_CPU, &limit);
}

static volatile unsigned char sink;

static void touch(struct ggml_context * tensors) {
    struct ggml_tensor * tensor = ggml_get_first_tensor(tensors);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(tensors, tensor)) {
        const unsigned char * data = ggml_get_data(tensor);
        const size_t size = ggml_nbytes(tensor);
        if (data == NULL || size == 0) {
            continue;
        }
        for (size_t i = 0; i < size; i += 4096) {
            sink = data[i];
        }
        sink = data[size - 1];
    }
}

static int directory(bool no_alloc) {
    struct ggml_context * tensors = NULL;
    struct gguf_init_params parameters = { .no_alloc = no_alloc, .ctx = &tensors };
    struct gguf_context * context = gguf_init_from_file(path, parameters);
    if (context == NULL) {
        return 0;
    }
    if (!no_alloc) {
        touch(tensors);
    }
    gguf_free(context);
    ggml_free(tensors);
    return 1;
}

#ifdef WITH_LLAMA
static int vocabulary(void) {
    struct llama_model_params parameters = llama_model_default_params();
    parameters.vocab_only = true;
    struct llama_model * model = llama_model_load_from_file(path, parameters);
    if (model == NULL) {
        return 0;
    }
    llama_model_free(model);
    return 1;
}
#endif

int main(int count, char ** arguments) {
    const struct rlimit no_core = { 0, 0 };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    const rlim_t seconds = count > 1 ? (rlim_t) atoi(arguments[1]) : 1;
    static char name[64];
    const int file = memfd_create("file", 0);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
    path = name;
    ggml_log_set(quiet, NULL);
#ifdef WITH_LLAMA
    llama_log_set(quiet, NULL);
    llama_backend_init();
#endif
    uint32_t size;
    while (fread(&size, sizeof(size), 1, stdin) == 1) {
        void * contents = malloc(size + 1);
        if (contents == NULL || fread(contents, 1, size, stdin) != size || ftruncate(file, 0) != 0 ||
            pwrite(file, contents, size, 0) != (ssize_t) size || ftruncate(2, 0) != 0) {
            return 3;
        }
        free(contents);
        lseek(2, 0, SEEK_SET);
        allow_cpu_seconds(seconds);
        int accepted = directory(true);
        accepted &= directory(false);
#ifdef WITH_LLAMA
        accepted &= vocabulary();
#endif
        putchar(accepted ? 'A' : 'R');
        fflush(stdout);
    }
    return 0;
}
