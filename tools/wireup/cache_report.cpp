// SPDX-License-Identifier: BSD-3-Clause
#include "cache_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "record_text.hpp"

namespace wireup::tool {
namespace {

using nlohmann::ordered_json;

std::vector<acm::CachedPath> youngest_first(const acm::CacheView& view) {
  std::vector<acm::CachedPath> entries = view.entries;
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const acm::CachedPath& a, const acm::CachedPath& b) { return a.path.age < b.path.age; });
  return entries;
}

/// What an entry is for, where that is not any service at any SL.
std::string purpose_text(const acm::PathKey& key) {
  std::string text;
  if (key.sl.has_value()) {
    text += fmt::format(" for SL {}", key.sl->value());
  }
  if (!key.service_id.is_zero()) {
    text += fmt::format(" for service 0x{:016x}", key.service_id.value());
  }
  return text;
}

}  // namespace

CacheSize size_of(const acm::CacheView& view) {
  CacheSize size{view.entries.size(), view.capacity, view.bytes, 0};
  if (view.capacity > 0) {
    size.bytes_per_place = static_cast<double>(view.bytes) / view.capacity;
  }
  return size;
}

std::string cache_title(const acm::CacheView& view) {
  return fmt::format("{}: uid {} port GUID {} partition {} generation {}", view.file.path,
                     view.file.uid, guid_text(view.file.port_guid),
                     pkey_text(PKey(view.file.partition)), view.generation);
}

std::string size_line(const CacheSize& size) {
  return fmt::format("{} of {} places, {} bytes, {:.1f} each", size.entries, size.capacity,
                     size.file_bytes, size.bytes_per_place);
}

std::string entries_text(const acm::CacheView& view) {
  std::string text;
  for (const acm::CachedPath& entry : youngest_first(view)) {
    text += fmt::format("{}  {} source {} age {} generation {}{}", text.empty() ? "" : "\n",
                        record_text(entry.path.record), acm::origin_name(entry.path.origin),
                        age_text(entry.path.age), entry.path.generation, purpose_text(entry.key));
  }
  return text;
}

ordered_json cache_json(const acm::CacheView& view, bool with_entries) {
  const CacheSize size = size_of(view);
  ordered_json json{{"file", view.file.path},
                    {"uid", view.file.uid},
                    {"port_guid", guid_text(view.file.port_guid)},
                    {"partition", pkey_text(PKey(view.file.partition))},
                    {"epoch", view.file.epoch},
                    {"generation", view.generation},
                    {"entries_count", size.entries},
                    {"capacity", size.capacity},
                    {"bytes", size.file_bytes},
                    {"bytes_per_place", size.bytes_per_place}};
  if (!with_entries) {
    return json;
  }
  auto list = ordered_json::array();
  for (const acm::CachedPath& entry : youngest_first(view)) {
    list.push_back({{"source", acm::origin_name(entry.path.origin)},
                    {"age_seconds", age_json(entry.path.age)},
                    {"generation", entry.path.generation},
                    {"key_sl", entry.key.sl.has_value() ? ordered_json(entry.key.sl->value())
                                                        : ordered_json(nullptr)},
                    {"key_service_id", entry.key.service_id.value()},
                    {"path", record_json(entry.path.record)}});
  }
  json["entries"] = std::move(list);
  return json;
}

}  // namespace wireup::tool
