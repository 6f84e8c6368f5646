/* Reading golden vectors, and comparing with them. Standard library only; a little-endian machine. */
#include "vectors.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *name) {
    fprintf(stderr, "%s: %s\n", what, name);
    exit(2);
}

/* Memory: a list of blocks. */

static struct Block { struct Block *next; double data[]; } *blocks;

void *allocate(size_t size) {
    struct Block *block = calloc(1, sizeof *block + size);
    if (!block) fail("cannot go on", "out of memory");
    block->next = blocks;
    blocks = block;
    return block->data;
}

void free_all(void) {
    for (struct Block *next; blocks; blocks = next) next = blocks->next, free(blocks);
}

static const char *formatted(const char *pattern, va_list rest) {
    char *text = allocate(200);
    vsnprintf(text, 200, pattern, rest);
    return text;
}

#define FORMAT(text, pattern) \
    va_list rest; va_start(rest, pattern); const char *text = formatted(pattern, rest); va_end(rest)

const char *format(const char *pattern, ...) { FORMAT(text, pattern); return text; }

/* JSON: a value is where its text begins. */

static const char *space(const char *p) { return p + strspn(p, " \t\r\n"); }

/* What follows a value. */
static const char *after(const char *p) {
    int depth = 0;
    do {
        if (*p == '"')
            for (p++; *p && *p != '"'; p++) p += *p == '\\' && p[1];
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p += *p != 0;
    } while (*p && (depth > 0 || !strchr(",:]} \t\r\n", *p)));
    return space(p);
}

/* Whether a value is the string, or begins with the bare word. */
static int is(const char *p, const char *word) {
    size_t n = strlen(word);
    return p && (*p == '"' ? !strncmp(p + 1, word, n) && p[n + 1] == '"' : !strncmp(p, word, n));
}

/* The value of an object's key; NULL if it has none. */
static const char *get(const char *object, const char *key) {
    if (!object || *object != '{') return NULL;
    for (const char *p = space(object + 1), *value; *p == '"'; p = space(p + (*p == ','))) {
        value = space(after(p) + 1);
        if (is(p, key)) return value;
        p = after(value);
    }
    return NULL;
}

/* Cases. */

static const char *read_file(const char *name) {
    FILE *file = fopen(name, "rb");
    long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    if (size < 8) fail("cannot read", name);
    char *bytes = allocate((size_t)size + 1); /* and a 0 behind them */
    rewind(file);
    if (fread(bytes, 1, (size_t)size, file) != (size_t)size) fail("cannot read", name);
    fclose(file);
    return bytes;
}

Case open_case(const char *folder, const char *name) {
    const char *index = space(read_file(format("%s/index.json", folder))), *entry = get(index, "cases");
    if (!entry || !is(get(index, "version"), "1")) fail("not version 1 of the vectors", folder);
    for (entry = space(entry + 1); *entry == '{' && !is(get(entry, "name"), name);) {
        entry = after(entry);
        entry = space(entry + (*entry == ','));
    }
    if (*entry != '{') fail("no such case", name);
    const char *file = read_file(format("%s/%s.safetensors", folder, name));
    uint64_t length; /* of the header, in the first 8 bytes */
    memcpy(&length, file, 8);
    return (Case){name, entry, file + 8, file + 8 + length, "", 0};
}

double number(const Case *c, const char *name) {
    const char *value = get(get(c->entry, "config"), name);
    if (!value) fail("the configuration lacks", name);
    return strtod(value, NULL);
}

int says(const Case *c, const char *name, const char *word) { return is(get(get(c->entry, "config"), name), word); }

/* The numbers of a tensor, *n of them in *rows rows. */
static double *numbers(const Case *c, const char *name, long *n, long *rows) {
    const char *entry = get(c->header, name), *dtype = get(entry, "dtype"), *offsets = get(entry, "data_offsets");
    long begin, end, size = is(dtype, "F32") ? 4 : 8;
    if (!offsets || sscanf(offsets, "[ %ld , %ld", &begin, &end) != 2) fail("no such tensor", name);
    if (sscanf(get(entry, "shape"), "[ %ld", rows) != 1) *rows = 1; /* a single number has no axis */
    *n = (end - begin) / size;
    double *out = allocate((size_t)*n * sizeof *out);
    for (long k = 0; k < *n; k++) {
        union { float single; double real; int64_t whole; } x;
        memcpy(&x, c->data + begin + k * size, (size_t)size);
        out[k] = is(dtype, "F32") ? x.single : is(dtype, "I64") ? (double)x.whole : x.real;
    }
    return out;
}

Matrix tensor(const Case *c, const char *pattern, ...) {
    FORMAT(name, pattern);
    long n, rows;
    double *from = numbers(c, name, &n, &rows);
    Matrix A = {(int)rows, (int)(n / rows), allocate((size_t)n * sizeof(real))};
    for (long k = 0; k < n; k++) A.at[k] = (real)from[k];
    return A;
}

/* Comparing. */

static struct Group { char name[100]; int values; double error, allowed; } groups[100];

static struct Group *group_of(const char *path) {
    char name[100] = "";
    for (int n = 0; *path && n < 99; path++) {
        if (*path == '[') path = strchr(path, ']');
        else name[n++] = *path;
    }
    for (struct Group *group = groups; group < groups + 100; group++)
        if (!*group->name || !strcmp(group->name, name)) return memcpy(group->name, name, 100), group;
    fail("too many groups", name);
    return NULL;
}

/* The largest difference, relative to the largest finite number of ours; infinite where only one is finite. */
static double relative_error(const double *ours, const real *theirs, long n) {
    double largest = 0, difference = 0;
    for (long k = 0; k < n; k++) {
        if (isinf(ours[k]) ? theirs[k] != ours[k] : !isfinite(theirs[k])) return INFINITY;
        if (isinf(ours[k])) continue;
        largest = fmax(largest, fabs(ours[k]));
        difference = fmax(difference, fabs(theirs[k] - ours[k]));
    }
    return largest > 0 ? difference / largest : difference;
}

Matrix check(Case *c, Matrix value, const char *pattern, ...) {
    FORMAT(path, pattern);
    const char *entry = get(get(c->entry, "values"), path);
    if (!entry) return value;
    long n, rows;
    double *ours = numbers(c, path, &n, &rows);
    double allowed = strtod(get(entry, "roundoffs"), NULL) * (sizeof(real) == 4 ? 0x1p-24 : 0x1p-53);
    double error = n == (long)value.rows * value.columns ? relative_error(ours, value.at, n) : INFINITY;
    struct Group *g = group_of(path);
    if (!g->values++ || error - allowed > g->error - g->allowed) g->error = error, g->allowed = allowed;
    if (error > allowed && !*c->first) snprintf(c->first, sizeof c->first, "%s", path);
    c->compared++;
    return value;
}

int report(Case *c) {
    for (struct Group *g = groups; *g->name; g++)
        printf("%-10s %-28s %3d values, error %.1e, allowed %.1e%s\n", c->name, g->name, g->values, g->error,
               g->allowed, g->error > g->allowed ? "  DIFFERS" : "");
    if (*c->first) printf("%s: differs first at %s\n", c->name, c->first);
    else printf("%s: %d values agree\n", c->name, c->compared);
    memset(groups, 0, sizeof groups);
    return *c->first || !c->compared;
}
