// SPDX-License-Identifier: BSD-3-Clause
#include "connect_all/report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "wireup/wireup.h"

namespace {

/// The value below which `percent` of the sorted values lie, in microseconds.
double percentile_us(const std::vector<std::uint64_t>& sorted_ns, std::size_t percent) {
  if (sorted_ns.empty()) {
    return 0;
  }
  const std::size_t index = std::min(sorted_ns.size() - 1, sorted_ns.size() * percent / 100);
  return static_cast<double>(sorted_ns[index]) / 1000.0;
}

/// A text as JSON has it.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace

Report make_report(const JobRecord& job) {
  Report report;
  using PortPair = std::pair<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>>;
  std::map<std::string, std::set<PortPair>> sources;
  std::vector<std::uint64_t> times;
  bool all_verified = true;

  for (std::uint32_t a = 0; a < job.ranks; ++a) {
    for (std::uint32_t b = a + 1; b < job.ranks; ++b) {
      const EndRecord& one = job.ends[std::size_t{a} * job.ranks + b];
      const EndRecord& other = job.ends[std::size_t{b} * job.ranks + a];
      const bool same = one.connected == 1 && other.connected == 1 &&
                        one.local_qpn == other.peer_qpn && one.peer_qpn == other.local_qpn;
      const bool verified = one.verified != 0 && other.verified != 0;
      const bool ended = one.disconnected == 1 && other.disconnected == 1;
      same&& ended ? ++report.connections : ++report.failed;
      all_verified = all_verified && verified;
      for (const EndRecord* end : {&one, &other}) {
        if (end->connected == 0) {
          continue;
        }
        const auto origin = static_cast<wireup_path_origin_t>(end->path_origin);
        sources[wireup_path_origin_str(origin)].insert({end->sgid, end->dgid});
        if (end->passive == 0) {
          times.push_back(end->connect_ns);
        }
      }
    }
  }
  report.verified = all_verified && report.failed == 0;
  std::sort(times.begin(), times.end());

  std::string paths;
  for (const auto& [name, pairs] : sources) {
    paths += (paths.empty() ? "" : ", ") + ("\"" + name + "\": ") + std::to_string(pairs.size());
  }
  report.json = "{\n  \"ranks\": " + std::to_string(job.ranks) +
                ",\n  \"hosts\": " + std::to_string(job.hosts) +
                ",\n  \"connections\": " + std::to_string(report.connections) +
                ",\n  \"failed\": " + std::to_string(report.failed) +
                ",\n  \"verified\": " + (report.verified ? "true" : "false") +
                ",\n  \"path_sources\": {" + paths + "}" +
                ",\n  \"cm_carrier\": " + quoted(job.carrier) +
                ",\n  \"cm_retransmits\": " + std::to_string(job.retransmits) +
                ",\n  \"crossed\": " + std::to_string(job.crossed) +
                ",\n  \"phases_ms\": {\"open\": " + number(job.phases_ms[0]) +
                ", \"connect\": " + number(job.phases_ms[1]) +
                ", \"disconnect\": " + number(job.phases_ms[2]) + "}" +
                ",\n  \"connect_us\": {\"p50\": " + number(percentile_us(times, 50)) +
                ", \"p99\": " + number(percentile_us(times, 99)) +
                ", \"max\": " + number(percentile_us(times, 100)) + "}\n}\n";
  return report;
}
