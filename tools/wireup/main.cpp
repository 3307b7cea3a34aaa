// SPDX-License-Identifier: BSD-3-Clause
// The `wireup` command.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

#include "command.hpp"
#include "common.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app("wireup: paths and connections of an InfiniBand fabric");
  app.require_subcommand(1);
  wireup::tool::Action action;
  wireup::tool::add_serve(app, action);
  wireup::tool::add_resolve(app, action);
  wireup::tool::add_verify(app, action);
  wireup::tool::add_cache(app, action);
  wireup::tool::add_doctor(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    // Help is no error.
    return app.exit(wrong) == 0 ? 0 : wireup::tool::kUnable;
  }
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
