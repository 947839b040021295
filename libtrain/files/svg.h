/*
 * What all SVG pictures of the trainer have in common: font, title, ground, grid and axes, in
 * colors that follow the viewer's light or dark color scheme. Colors are CSS classes, so one style
 * sheet holds both schemes.
 */
#ifndef LIBTRAIN_FILES_SVG_H
#define LIBTRAIN_FILES_SVG_H

#include <stdio.h>

#include "base/status.h"

/* Creates the file at `path` and begins a picture. `style` and `dark_style` are CSS rules of the
 * picture's own classes, besides title, label, ground, grid and axis. `option` names the path in
 * messages ("--svg"). COLL_ERROR_SYSTEM names the path, here and below. */
coll_status_t train_svg_open(const char *option, const char *path, double width, double height,
                             const char *style, const char *dark_style, FILE **out);

/* Ends the picture and closes the file. */
coll_status_t train_svg_close(const char *option, const char *path, FILE *out);

/* `anchor` is start, middle or end. Characters that have a meaning in XML are escaped. */
void train_svg_text(FILE *out, double x, double y, const char *class, const char *anchor,
                    const char *words);
void train_svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class);

#endif
