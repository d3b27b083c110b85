/* A table of text, between the file that parses it and those that make a data set of it. */
#pragma once
#include "dataimpl.h"

typedef struct {
  const char *kind, *name; /* for errors: a table or ratings */
  FILE *file;
  char separator; /* the one of , ; and tab that stands most in the first line; blank: any run */
  bool doubled;   /* the separator stands twice, as in 1::2 */
  int64_t line;   /* number of the line that was read last, from 1 */
  int n_columns;
  char **heading; /* [n_columns] owned */
  int n_cells, cell_room;
  int64_t n_text, text_room;
  int64_t *cell; /* [n_cells] where the cell begins in text */
  char *text;    /* of the row that was read last; each cell ends with a zero */
} RengaCsv;

/* The first row gives the headings. */
RengaErrorCode RengaCsvOpen_Private(const char *name, RengaCsv *csv);
/* Lines of ratings: no line is taken for headings, and rows may have any numbers of cells. */
RengaErrorCode RengaCsvOpenRatings_Private(const char *name, RengaCsv *csv);
/* The next row of as many cells as there are headings; *more false at the end. Empty lines are
   passed over. */
RengaErrorCode RengaCsvRead_Private(RengaCsv *csv, bool *more);
const char *RengaCsvCell_Private(const RengaCsv *csv, int column);
/* Back to the row after the headings. */
RengaErrorCode RengaCsvRewind_Private(RengaCsv *csv);
void RengaCsvClose_Private(RengaCsv *csv);
