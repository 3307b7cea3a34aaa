// SPDX-License-Identifier: BSD-3-Clause
// `wireup cache`: what the node cache holds, how large it is, and emptying it.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "acm/client/cache_flush.hpp"
#include "acm/client/cache_view.hpp"
#include "base/clock.hpp"
#include "cache_report.hpp"
#include "command.hpp"
#include "common.hpp"

namespace wireup::tool {
namespace {

/// How long a resolver may take to empty its cache.
constexpr Duration kFlushPatience = std::chrono::seconds(10);

/// All caches that this user may read; an error when there is none.
Result<std::vector<acm::CacheView>> view_all(const settings::Settings& settings) {
  std::vector<acm::CacheView> views;
  for (const acm::CacheFile& file : acm::find_caches(node_places(settings))) {
    auto view = acm::view_cache(file, monotonic_now());
    if (!view) {
      return fail(view.error());
    }
    views.push_back(std::move(*view));
  }
  if (views.empty()) {
    return fail(Error::make(Errc::NotFound,
                            "neither %s nor %s has a node cache that this user may read: nothing "
                            "was resolved here, or another user's resolver did it",
                            settings.cache_directory().c_str(), acm::kPublicDirectory));
  }
  return views;
}

/// Runs `body` over the caches, each of which adds to the JSON list or prints for itself.
int for_all(const CommonOptions& options,
            const std::function<void(const acm::CacheView&, nlohmann::ordered_json&)>& body) {
  const auto settings = read_settings(options);
  if (!settings) {
    complain(settings.error().what());
    return kUnable;
  }
  const auto views = view_all(*settings);
  if (!views) {
    complain(views.error().what());
    return kBad;
  }
  auto list = nlohmann::ordered_json::array();
  for (const acm::CacheView& view : *views) {
    body(view, list);
  }
  if (options.is_json) {
    print_list("caches", std::move(list));
  }
  return kGood;
}

int show(const CommonOptions& options, bool with_entries) {
  return for_all(options, [&](const acm::CacheView& view, nlohmann::ordered_json& list) {
    if (options.is_json) {
      list.push_back(cache_json(view, with_entries));
      return;
    }
    print_line(cache_title(view));
    print_line("  " + size_line(size_of(view)));
    if (with_entries && !view.entries.empty()) {
      print_line(entries_text(view));
    }
  });
}

int flush(const CommonOptions& options) {
  const auto settings = read_settings(options);
  const acm::NodePlaces places = settings ? node_places(*settings) : acm::NodePlaces();
  int status = kGood;
  const int read = for_all(options, [&](const acm::CacheView& view, nlohmann::ordered_json& list) {
    const auto flushed = acm::flush_cache(view.file, places, monotonic_now() + kFlushPatience);
    if (!flushed) {
      complain(flushed.error().what());
      status = kBad;
    }
    if (options.is_json) {
      nlohmann::ordered_json json{{"file", view.file.path}, {"flushed", flushed.has_value()}};
      if (flushed) {
        json["generation"] = *flushed;
      } else {
        json["error"] = flushed.error().what();
      }
      list.push_back(std::move(json));
    } else if (flushed) {
      print_line(fmt::format("{}: {} entries are void, generation {}", view.file.path,
                             view.entries.size(), *flushed));
    }
  });
  return read == kGood ? status : read;
}

}  // namespace

void add_cache(CLI::App& app, Action& action) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command =
      app.add_subcommand("cache", "the node cache: its entries, its size, emptying it");
  command->require_subcommand(0, 1);
  add_json(*command, *options);
  command->callback([options, command, &action] {
    if (command->get_subcommands().empty()) {
      action = [options] { return show(*options, true); };
    }
  });
  const auto add = [&](const char* name, const char* help, const Action& body) {
    CLI::App* sub = command->add_subcommand(name, help);
    add_json(*sub, *options);
    sub->callback([body, &action] { action = body; });
  };
  add("show", "the entries with their age, source and generation",
      [options] { return show(*options, true); });
  add("size", "number of entries, places, bytes", [options] { return show(*options, false); });
  add("flush", "makes every entry void: paths are asked for again",
      [options] { return flush(*options); });
}

}  // namespace wireup::tool
