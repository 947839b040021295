/* A tree of small files in a temporary folder, in place of sysfs. */
#ifndef TESTS_TOPO_TREE_H
#define TESTS_TOPO_TREE_H

#define TREE_BYTES 64

/* Makes the folder. The test removes it with tree_remove. */
void tree_make(char root[TREE_BYTES]);

/* Adds a file with a text, and the folders above it. */
void tree_add(const char *root, const char *path, const char *text);

/* Adds a symbolic link to another path of the tree, which is made a folder. */
void tree_link(const char *root, const char *path, const char *target);

void tree_remove(const char *root);

#endif
