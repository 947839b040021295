/* Writes the parts of a scene as SVG. Colours suit light and dark pages: the style follows the
 * reader's preference (prefers-color-scheme). */
#ifndef DRAW_PAINT_H
#define DRAW_PAINT_H

#include <stdio.h>

#include "tools/draw/scene.h"

/* The opening tag, the style and the background. */
void paint_begin(double width, double height, FILE *out);
void paint_end(FILE *out);

/* The boxes of hosts and the frames of packages; after the links, the names of hosts and all other
 * boxes with a label each: labels[node], or where that is NULL (or labels is), the name, as far as
 * it fits. Tooltips say more if `with_tooltips`. */
void paint_hosts(const scene_t *scene, FILE *out);
void paint_boxes(const scene_t *scene, const char *const labels[], bool with_tooltips, FILE *out);

/* All links, in the colour of their class, as wide as paint_link_width. */
void paint_links(const scene_t *scene, FILE *out);

/* Pixels: grows with the square root of the bandwidth, so that 0.1 and 900 GB/s fit one picture. */
double paint_link_width(const topo_link_t *link);

/* "M… C…" of a curve, or of a half of it: part 0 the whole, 1 the half near a, 2 near b. */
void paint_curve(const scene_curve_t *curve, int part, FILE *out);

/* What the colours of boxes and the widths of links mean, in lines from y on. Returns the height;
 * out NULL: only that. */
double paint_legend(const scene_t *scene, double x, double y, double width, FILE *out);

#endif
