/* The common style sheet, and elements with one decimal. */
#include "libtrain/files/svg.h"

#include <stdbool.h>

#include "base/svg.h"

static const char common_style[] =
    "text { font-family: Inter, \"Helvetica Neue\", Arial, \"DejaVu Sans\", sans-serif;\n"
    "  font-size: 11.5px; fill: #667085; }\n"
    ".title { font-size: 16px; font-weight: 700; fill: #1d2433; }\n"
    ".label { font-weight: 600; }\n"
    ".ground { fill: #ffffff; } .grid { stroke: #e6e9ef; } .axis { stroke: #667085; }\n";

static const char common_dark_style[] =
    "  text { fill: #98a2b3; } .title { fill: #f2f4f7; }\n"
    "  .ground { fill: #10141c; } .grid { stroke: #262d3a; } .axis { stroke: #98a2b3; }\n";

coll_status_t train_svg_open(const char *option, const char *path, double width, double height,
                             const char *style, const char *dark_style, FILE **out) {
  FILE *file = fopen(path, "we");
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s %s", option, path);
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
          "viewBox=\"0 0 %g %g\">\n<style>%s%s"
          "@media (prefers-color-scheme: dark) {\n%s%s}\n</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" class=\"ground\"/>\n",
          width, height, width, height, common_style, style, common_dark_style, dark_style);
  *out = file;
  return COLL_OK;
}

coll_status_t train_svg_close(const char *option, const char *path, FILE *out) {
  fputs("</svg>\n", out);
  bool wrote = fflush(out) == 0 && !ferror(out);
  coll_status_t status =
      wrote ? COLL_OK : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s %s", option, path);
  fclose(out);
  return status;
}

void train_svg_text(FILE *out, double x, double y, const char *class, const char *anchor,
                    const char *words) {
  base_svg_text(x, y, class, anchor, words, out);
}

void train_svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class) {
  fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2,
          y2, class);
}
