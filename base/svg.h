/* Text in SVG pictures. */
#ifndef BASE_SVG_H
#define BASE_SVG_H

#include <stdio.h>

/* Writes the text with the characters escaped that have a meaning in XML. */
void base_svg_escape(const char *text, FILE *out);

/* Writes a text element with a class of the picture's style sheet; anchor: "start", "middle" or
 * "end". */
void base_svg_text(double x, double y, const char *class, const char *anchor, const char *text,
                   FILE *out);

#endif
