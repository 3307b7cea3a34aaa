// SPDX-License-Identifier: BSD-3-Clause
// The `wireup` command.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

#include "command.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app("wireup: paths and connections of an InfiniBand fabric");
  app.require_subcommand(1);
  wireup::tool::Action action;
  wireup::tool::add_serve(app, action);
  CLI11_PARSE(app, argc, argv);
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "wireup: %s\n", failure.what());
    return 1;
  }
}
