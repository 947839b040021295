/* Text elements. */
#include "base/svg.h"

void base_svg_escape(const char *text, FILE *out) {
  for (; *text != '\0'; text++) {
    switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      default: fputc(*text, out); break;
    }
  }
}

void base_svg_text(double x, double y, const char *class, const char *anchor, const char *text,
                   FILE *out) {
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
  base_svg_escape(text, out);
  fputs("</text>\n", out);
}
