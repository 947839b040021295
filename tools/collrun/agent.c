/* The command of an agent: the words of --agent with the host's name, then collrun with options,
 * then the program. A remote shell splits the command again, so for ssh the words are quoted. */
#include "tools/collrun/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/knob.h"
#include "base/lines.h"
#include "base/text.h"
#include "tools/collrun/mpirun_options.h"
#include "topo/interfaces.h"

#define WORD_BYTES (2 * PATH_MAX)
#define MARK "collrun-address "
#define NO_ADDRESS "none"
#define ANSWER_BYTES 65536 /* with what a remote shell prints */

extern char **environ;

/* ---- words ----------------------------------------------------------------------------------*/

typedef struct words {
  char **list; /* NULL-terminated, each allocated */
  size_t count, capacity;
  bool quotes; /* for a remote shell */
} words_t;

static coll_status_t append(words_t *words, const char *text) {
  COLL_TRY(base_grow((void **)&words->list, &words->capacity, words->count + 2, sizeof *words->list,
                     "a command"));
  words->list[words->count] = strdup(text);
  if (words->list[words->count] == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory");
  words->list[++words->count] = NULL;
  return COLL_OK;
}

/* 'word', with each ' in it written as '\''. */
static coll_status_t append_quoted(words_t *words, const char *text) {
  char *quoted, *to;
  COLL_TRY(base_alloc(4 * strlen(text) + 3, 1, "a command", (void **)&quoted));
  to = quoted;
  *to++ = '\'';
  for (; *text != '\0'; text++) {
    if (*text == '\'')
      to = stpcpy(to, "'\\''");
    else
      *to++ = *text;
  }
  *to = '\'';
  coll_status_t status = append(words, quoted);
  free(quoted);
  return status;
}

static coll_status_t add(words_t *words, const char *text) {
  return words->quotes ? append_quoted(words, text) : append(words, text);
}

static coll_status_t add_number(words_t *words, const char *option, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  COLL_TRY(add(words, option));
  return add(words, text);
}

/* ---- the command ----------------------------------------------------------------------------*/

bool collrun_agent_is_ssh(const collrun_settings_t *settings) {
  const char *at = settings->hosts.count > 0 ? settings->agent : "";
  while (*at != '\0') {
    size_t length = strcspn(at, " ");
    bool is_last_part = length == 3 || (length > 3 && at[length - 4] == '/');
    if (is_last_part && strncmp(at + length - 3, "ssh", 3) == 0) return true;
    at += length + strspn(at + length, " ");
  }
  return false;
}

/* The words of --agent; {host} in them is the host's name. */
static coll_status_t add_agent(words_t *words, const char *agent, const char *host) {
  char *copy = strdup(agent), *rest = copy, *word, text[WORD_BYTES];
  coll_status_t status = copy != NULL ? COLL_OK : base_fail(COLL_ERROR_MEMORY, "no memory");
  while (status == COLL_OK && (word = strsep(&rest, " ")) != NULL) {
    const char *place = strstr(word, "{host}");
    if (word[0] == '\0') continue;
    if (place == NULL) {
      snprintf(text, sizeof text, "%s", word);
    } else {
      snprintf(text, sizeof text, "%.*s%s%s", (int)(place - word), word, host, place + 6);
    }
    status = append(words, text);
  }
  free(copy);
  return status;
}

/* The library's variables and those of -x, which ssh does not pass on. */
static coll_status_t add_environment(const collrun_settings_t *settings, words_t *words,
                                     const char *host) {
  char text[WORD_BYTES];
  COLL_TRY(add(words, "env"));
  for (char **each = environ; *each != NULL; each++) {
    bool is_ours = strncmp(*each, "COLL_", 5) == 0 || strncmp(*each, "LIBTRAIN_", 9) == 0;
    bool is_of_host =
        strncmp(*each, "COLL_HOST_ID=", 13) == 0 || strncmp(*each, "COLL_SECRET_SOCKET=", 19) == 0;
    bool is_exported = is_ours || collrun_mpirun_exports(&settings->exports, *each);
    if (is_exported && !is_of_host) COLL_TRY(add(words, *each));
  }
  snprintf(text, sizeof text, "COLL_HOST_ID=%s", host);
  return add(words, text);
}

static coll_status_t begin(const collrun_settings_t *settings, int host, words_t *words) {
  char path[PATH_MAX];
  const char *name = settings->hosts.list[host].name;
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "the path of collrun is unknown");
  path[length] = '\0';
  COLL_TRY(add_agent(words, settings->agent, name));
  words->quotes = collrun_agent_is_ssh(settings);
  COLL_TRY(add_environment(settings, words, name));
  return add(words, path);
}

static coll_status_t fill(const collrun_settings_t *settings, int index,
                          const collrun_address_t *address, words_t *words) {
  char folder[PATH_MAX];
  const collrun_host_t *host = &settings->hosts.list[index];
  if (getcwd(folder, sizeof folder) == NULL) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "the working folder is unknown");
  }
  COLL_TRY(begin(settings, index, words));
  COLL_TRY(add_number(words, "-n", host->ranks));
  COLL_TRY(add_number(words, "--first-rank", host->first));
  COLL_TRY(add_number(words, "--world-size", settings->hosts.ranks));
  COLL_TRY(add_number(words, "--port", address->port));
  COLL_TRY(add_number(words, "--grace-ms", settings->grace_ms));
  COLL_TRY(add(words, "--address"));
  COLL_TRY(add(words, address->text));
  COLL_TRY(add(words, "--folder"));
  COLL_TRY(add(words, folder));
  COLL_TRY(add(words, "--bind"));
  COLL_TRY(add(words, settings->bind ? "core" : "none"));
  COLL_TRY(add(words, "--map"));
  COLL_TRY(add(words, topo_map_words[settings->map]));
  if (settings->prefix) COLL_TRY(add(words, "--prefix"));
  if (settings->output != NULL) {
    COLL_TRY(add(words, "--output"));
    COLL_TRY(add(words, settings->output));
  }
  COLL_TRY(add(words, "--"));
  for (char **each = settings->program; *each != NULL; each++) COLL_TRY(add(words, *each));
  return COLL_OK;
}

coll_status_t collrun_agent_command(const collrun_settings_t *settings, int host,
                                    const collrun_address_t *address, char ***command) {
  words_t words = {0};
  coll_status_t status = fill(settings, host, address, &words);
  if (status == COLL_OK)
    *command = words.list;
  else
    collrun_agent_free(words.list);
  return status;
}

void collrun_agent_free(char **command) {
  for (char **each = command; each != NULL && *each != NULL; each++) free(*each);
  free(command);
}

/* ---- addresses ------------------------------------------------------------------------------*/

static const base_knob_t chosen_knob = {
    .name = "COLL_INTERFACE_ADDRESS", .kind = BASE_KNOB_TEXT, .fallback = ""};

/* The address that the user has chosen, else the best of this host's; "": it has none that other
 * hosts reach. */
static coll_status_t pick_address(char text[COLLRUN_ADDRESS_BYTES]) {
  topo_interface_t found;
  const char *chosen;
  int count;
  COLL_TRY(base_knob_text(&chosen_knob, &chosen));
  snprintf(text, COLLRUN_ADDRESS_BYTES, "%s", chosen);
  if (chosen[0] != '\0') return COLL_OK;
  COLL_TRY(topo_interfaces_own(1, &found, &count));
  if (count > 0) topo_interface_text(&found, text);
  return COLL_OK;
}

coll_status_t collrun_agent_print_address(int port) {
  char text[COLLRUN_ADDRESS_BYTES];
  COLL_TRY(pick_address(text));
  printf(MARK "%s %d\n", text[0] != '\0' ? text : NO_ADDRESS, port);
  return COLL_OK;
}

/* A line such as "collrun-address 10.0.0.1 4711". A remote shell may print others. */
static bool read_address(char *text, collrun_address_t *address) {
  int64_t number;
  char *at = strstr(text, MARK);
  if (at == NULL) return false;
  at += strlen(MARK);
  char *port = strchr(at, ' ');
  if (port == NULL || port - at >= COLLRUN_ADDRESS_BYTES) return false;
  *port++ = '\0';
  if (!base_text_integer(port, 1, 65535, &number)) return false;
  memcpy(address->text, at, strlen(at) + 1);
  address->port = (int)number;
  return true;
}

static coll_status_t await_answer(const char *host, int from, pid_t child,
                                  collrun_address_t *address) {
  base_lines_t lines = {0};
  bool found = false;
  int end = 0;
  FILE *answer = fdopen(from, "r");
  while (answer != NULL && base_lines_next(&lines, answer)) {
    found = read_address(lines.text, address) || found;
  }
  (void)base_lines_end(&lines, host);
  if (answer != NULL)
    fclose(answer);
  else
    close(from);
  while (waitpid(child, &end, 0) < 0 && errno == EINTR) {
  }
  if (found && WIFEXITED(end) && WEXITSTATUS(end) == 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM,
                   "host %s: its agent could not run collrun there (exit code %d; its own message "
                   "is above); collrun has to be at the same path on all hosts",
                   host, WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end));
}

static coll_status_t run_and_read(const char *host, char **command, collrun_address_t *address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base_fail_errno(COLL_ERROR_SYSTEM, "no pipe");
  pid_t child = fork();
  if (child == 0) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execvp(command[0], command);
    fprintf(stderr, "collrun: %s: %s\n", command[0], strerror(errno));
    _exit(127);
  }
  close(ends[1]);
  coll_status_t status = child < 0 ? base_fail_errno(COLL_ERROR_SYSTEM, "host %s: no process", host)
                                   : await_answer(host, ends[0], child, address);
  if (child < 0) close(ends[0]);
  return status;
}

/* Where the first host has only loopback addresses, these do for the ranks of that host alone. */
static coll_status_t complete(const collrun_settings_t *settings, collrun_address_t *address) {
  if (strcmp(address->text, NO_ADDRESS) != 0) return COLL_OK;
  snprintf(address->text, sizeof address->text, "127.0.0.1");
  if (settings->hosts.count == 1) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM,
                   "host %s has no address that the other hosts reach: its interfaces are down or "
                   "have none; give one with --address, or interfaces with COLL_INTERFACES",
                   settings->hosts.list[0].name);
}

coll_status_t collrun_agent_ask(const collrun_settings_t *settings, collrun_address_t *address) {
  words_t words = {0};
  const char *host = settings->hosts.list[0].name;
  bool is_given = settings->address != NULL && settings->port != 0;
  coll_status_t status = is_given ? COLL_OK : begin(settings, 0, &words);
  if (status == COLL_OK && !is_given) status = add(&words, "--print-address");
  if (status == COLL_OK && !is_given) status = run_and_read(host, words.list, address);
  collrun_agent_free(words.list);
  if (status == COLL_OK && settings->address == NULL) status = complete(settings, address);
  if (status != COLL_OK) return status;
  if (settings->port != 0) address->port = settings->port;
  if (settings->address != NULL) {
    snprintf(address->text, sizeof address->text, "%s", settings->address);
  }
  return COLL_OK;
}
