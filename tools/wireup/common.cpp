// SPDX-License-Identifier: BSD-3-Clause
#include "common.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <cstdio>

#include "base/text.hpp"

namespace wireup::tool {

void add_device(CLI::App& command, CommonOptions& options) {
  command.add_option("-d,--device,--port", options.device,
                     "use this port: device or device:port (setting device)");
}

void add_pkey(CLI::App& command, CommonOptions& options) {
  command.add_option("-p,--pkey", options.pkey, "in this partition (setting pkey)");
}

void add_socket(CLI::App& command, CommonOptions& options) {
  command.add_option("-S,--socket", options.socket,
                     "the node's ACM service is here (setting service_socket)");
}

void add_json(CLI::App& command, CommonOptions& options) {
  command.add_flag("-j,--json", options.is_json, "print JSON");
}

Result<settings::Settings> read_settings(const CommonOptions& options) {
  auto loaded = settings::load();
  if (!loaded.problems.empty()) {
    return fail(loaded.problems.front());
  }
  const auto set = [&loaded](settings::Id id, const std::string& text,
                             const char* option) -> Result<> {
    return text.empty() ? Result<>()
                        : loaded.settings.set(id, text, settings::Origin::Caller, option);
  };
  for (const auto& done : {set(settings::Id::Device, options.device, "--device"),
                           set(settings::Id::PKey, options.pkey, "--pkey"),
                           set(settings::Id::ServiceSocket, options.socket, "--socket")}) {
    if (!done) {
      return fail(done.error());
    }
  }
  return std::move(loaded.settings);
}

acm::NodePlaces node_places(const settings::Settings& settings) {
  acm::NodePlaces places;
  places.directory = settings.runtime_directory(geteuid());
  places.cache_directory = settings.cache_directory();
  places.cache_entries = settings.cache_entries();
  return places;
}

acm::PortWish port_wish(const settings::Settings& settings) {
  acm::PortWish wish;
  const std::string_view text = settings.device();
  const std::size_t colon = text.rfind(':');
  wish.device = std::string(text.substr(0, colon));
  if (colon != std::string_view::npos) {
    // The settings let only numbers of ports in.
    wish.port = static_cast<std::uint8_t>(parse_decimal(text.substr(colon + 1)).value_or(0));
  }
  wish.pkey = settings.pkey();
  return wish;
}

void complain(std::string_view text) {
  fmt::print(stderr, "wireup: {}\n", text);
}

void print(const nlohmann::ordered_json& json) {
  print_line(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_list(const char* name, nlohmann::ordered_json list) {
  nlohmann::ordered_json whole;
  whole[name] = std::move(list);
  print(whole);
}

void print_line(std::string_view line) {
  fmt::print("{}\n", line);
}

}  // namespace wireup::tool
