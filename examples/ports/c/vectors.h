/* Golden vectors, read in plain C: one JSON index, one safetensors file for every case. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>

#ifndef REAL
#define REAL double /* cc -DREAL=float computes, and is judged, in single precision */
#endif
typedef REAL real;

typedef struct { /* row by row; tokens are columns; a vector has one column */
    int rows, columns;
    real *at;
} Matrix;

typedef struct {
    const char *name, *entry;  /* the case's part of the index */
    const char *header, *data; /* of its safetensors file */
    char first[200];           /* the path of the first value that differs, or "" */
    int compared;
} Case;

/* Memory, and text as printf makes it, that last until `free_all`. */
void *allocate(size_t size);
const char *format(const char *pattern, ...);
void free_all(void);

/* The case `name` of a folder. What cannot be read ends the program with one line and status 2. */
Case open_case(const char *folder, const char *name);

/* The configuration's number of this name; whether its text or truth value is `word`. */
double number(const Case *c, const char *name);
int says(const Case *c, const char *name, const char *word);

/* The input or parameter whose name printf would make. */
Matrix tensor(const Case *c, const char *pattern, ...);

/* Compares a value with the one at the path that printf would make, if the case has it; returns the value. */
Matrix check(Case *c, Matrix value, const char *pattern, ...);

/* Prints one line for every group of values (paths that differ in their indices only); returns 1 if one differs. */
int report(Case *c);

#endif
