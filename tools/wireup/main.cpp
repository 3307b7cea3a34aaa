// SPDX-License-Identifier: BSD-3-Clause
// The `wireup` command.
#include <CLI/CLI.hpp>

#include "command.hpp"

int main(int argc, char** argv) {
  CLI::App app("wireup: paths and connections of an InfiniBand fabric");
  app.require_subcommand(1);
  wireup::tool::Action action;
  wireup::tool::add_serve(app, action);
  CLI11_PARSE(app, argc, argv);
  return action();
}
