// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "acm/client/own_question.hpp"
#include "settings/settings.hpp"

namespace wireup::tool {

/// Exit statuses of all commands but serve.
inline constexpr int kGood = 0;
/// Something that was asked for failed, or was found to be wrong.
inline constexpr int kBad = 1;
/// The command could not be carried out: a wrong argument or setting.
inline constexpr int kUnable = 2;

/// Options that several commands have.
struct CommonOptions {
  /// Over the settings, where not empty.
  std::string device;
  std::string pkey;
  std::string socket;
  bool is_json = false;
};
void add_device(CLI::App& command, CommonOptions& options);
void add_pkey(CLI::App& command, CommonOptions& options);
void add_socket(CLI::App& command, CommonOptions& options);
void add_json(CLI::App& command, CommonOptions& options);

/// The settings of this process with the options over them. Errors are for the user, with where the
/// value came from.
[[nodiscard]] Result<settings::Settings> read_settings(const CommonOptions& options);

/// Where the processes of this node meet, by the settings.
[[nodiscard]] acm::NodePlaces node_places(const settings::Settings& settings);

/// The port that the settings mean.
[[nodiscard]] acm::PortWish port_wish(const settings::Settings& settings);

/// To standard error: "wireup: ...".
void complain(std::string_view text);
/// With a newline, to standard output; texts that are not UTF-8 get replacement characters.
void print(const nlohmann::ordered_json& json);
/// An object with one list in it.
void print_list(const char* name, nlohmann::ordered_json list);
void print_line(std::string_view line);

}  // namespace wireup::tool
