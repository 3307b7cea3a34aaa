// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace wireup::tool {

/// What a subcommand does once its arguments are read; returns the exit status.
using Action = std::function<int()>;

/// Each adds its subcommand, and puts its action there when the user asked for it.
void add_serve(CLI::App& app, Action& action);
void add_resolve(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

}  // namespace wireup::tool
