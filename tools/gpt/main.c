/* gpt: trains GPT-2 models on text, data-parallel over libcoll, and generates text with them. */
#include "base/tool.h"
#include "tools/gpt/gpt.h"

static const char usage[] =
    "gpt COMMAND [options]\n"
    "\n"
    "Trains a GPT-2 on text, on one rank or many, and generates text with it.\n"
    "\n"
    "Examples:\n"
    "  collrun -n 2 gpt train --seconds 60\n"
    "      trains on the C headers in /usr/include for a minute, on two ranks\n"
    "  gpt sample --prompt '#include <' --tokens 400\n"
    "      lets the trained model continue that text\n"
    "\n"
    "Commands:\n"
    "  train      train a model and save it as a checkpoint\n"
    "  sample     generate text with a checkpoint\n"
    "  eval       compute the loss of a checkpoint on text\n"
    "  plan       predict memory and bytes sent of a training run\n"
    "  schedule   show, prove and draw the schedule of a pipeline\n"
    "  mesh       show the groups of ranks of a layout\n"
    "  convert    convert models to and from Hugging Face's transformers and llm.c\n"
    "  tokenizer  train a tokenizer, and encode and decode text\n"
    "\n"
    "gpt COMMAND --help describes a command.\n";

static const base_tool_command_t commands[] = {
    {"train", gpt_train},     {"sample", gpt_sample},      {"eval", gpt_eval},
    {"plan", gpt_plan},       {"schedule", gpt_schedule},  {"mesh", gpt_mesh},
    {"convert", gpt_convert}, {"tokenizer", gpt_tokenizer}};

static int run(int argc, char **argv) {
  return base_tool_dispatch("gpt", usage, commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}

int main(int argc, char **argv) {
  return base_tool_main("gpt", run, argc, argv);
}
