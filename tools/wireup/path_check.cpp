// SPDX-License-Identifier: BSD-3-Clause
#include "path_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "record_text.hpp"

namespace wireup::tool {
namespace {

/// What a group decides for all its paths.
using GroupValues = std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>;

GroupValues group_values(const mad::PathRecord& record) {
  return {record.sl.value(), record.mtu, record.rate};
}

std::string group_text(const mad::PathRecord& record) {
  return fmt::format("SL {}, MTU {}, rate {}", record.sl.value(), mtu_text(record.mtu),
                     rate_text(record.rate));
}

/// "SL", "MTU" and "rate", as far as two records differ in them.
std::string unequal_parts(const mad::PathRecord& a, const mad::PathRecord& b) {
  std::string parts;
  const auto add = [&parts](bool differs, const char* name) {
    if (differs) {
      parts += (parts.empty() ? "" : " and ") + std::string(name);
    }
  };
  add(a.sl != b.sl, "SL");
  add(a.mtu != b.mtu, "MTU");
  add(a.rate != b.rate, "rate");
  return parts;
}

void judge_directions(const std::vector<CheckedPath>& paths, Verdict& verdict) {
  for (const CheckedPath& path : paths) {
    if (!path.is_switch && path.outward && path.inward &&
        group_values(*path.outward) != group_values(*path.inward)) {
      verdict.reasons.push_back(fmt::format("{} differs by direction: to GID {} {}, from there {}",
                                            unequal_parts(*path.outward, *path.inward),
                                            to_text(path.cached.key.dgid).data(),
                                            group_text(*path.outward), group_text(*path.inward)));
      return;
    }
  }
}

void judge_destinations(const std::vector<CheckedPath>& paths, Verdict& verdict) {
  const CheckedPath* first = nullptr;
  for (const CheckedPath& path : paths) {
    if (!path.outward || path.is_switch) {
      continue;
    }
    if (first == nullptr) {
      first = &path;
    } else if (group_values(*first->outward) != group_values(*path.outward)) {
      verdict.reasons.push_back(
          fmt::format("{} differs by destination: to GID {} {}, to GID {} {}",
                      unequal_parts(*first->outward, *path.outward),
                      to_text(first->cached.key.dgid).data(), group_text(*first->outward),
                      to_text(path.cached.key.dgid).data(), group_text(*path.outward)));
      return;
    }
  }
}

void judge_made(const std::vector<CheckedPath>& paths, Verdict& verdict) {
  for (const CheckedPath& path : paths) {
    if (path.cached.path.origin == acm::PathOrigin::AcmMulticast && path.outward &&
        group_values(path.cached.path.record) != group_values(*path.outward)) {
      verdict.reasons.push_back(
          fmt::format("the path made from a group to GID {} has {}, the SA's has {}",
                      to_text(path.cached.key.dgid).data(), group_text(path.cached.path.record),
                      group_text(*path.outward)));
      return;
    }
  }
}

}  // namespace

std::vector<Difference> differences(const mad::PathRecord& cached, const mad::PathRecord& sa) {
  std::vector<Difference> found;
  const auto compare = [&found](const char* field, const std::string& a, const std::string& b) {
    if (a != b) {
      found.push_back({field, a, b});
    }
  };
  const auto number = [&compare](const char* field, unsigned a, unsigned b) {
    compare(field, std::to_string(a), std::to_string(b));
  };
  compare("dgid", to_text(cached.dgid).data(), to_text(sa.dgid).data());
  compare("sgid", to_text(cached.sgid).data(), to_text(sa.sgid).data());
  number("dlid", cached.dlid.value(), sa.dlid.value());
  number("slid", cached.slid.value(), sa.slid.value());
  number("sl", cached.sl.value(), sa.sl.value());
  compare("mtu", mtu_text(cached.mtu), mtu_text(sa.mtu));
  compare("rate", rate_text(cached.rate), rate_text(sa.rate));
  if (cached.pkey.partition() != sa.pkey.partition()) {
    compare("pkey", pkey_text(cached.pkey), pkey_text(sa.pkey));
  }
  number("packet_lifetime", cached.packet_lifetime, sa.packet_lifetime);
  number("flow_label", cached.flow_label.value(), sa.flow_label.value());
  number("hop_limit", cached.hop_limit, sa.hop_limit);
  number("traffic_class", cached.traffic_class, sa.traffic_class);
  return found;
}

std::vector<Difference> CheckedPath::outward_differences() const {
  return outward ? differences(cached.path.record, *outward) : std::vector<Difference>{};
}

std::vector<Difference> CheckedPath::inward_differences() const {
  return inward && cached.path.origin != acm::PathOrigin::SaQuery
             ? differences(mad::reversed(cached.path.record), *inward)
             : std::vector<Difference>{};
}

bool CheckedPath::is_good() const {
  return outward && inward && outward_differences().empty() && inward_differences().empty();
}

Verdict judge(const std::vector<CheckedPath>& paths) {
  Verdict verdict;
  verdict.checked = paths.size();
  for (const CheckedPath& path : paths) {
    const bool is_answered = path.outward.has_value() && path.inward.has_value();
    verdict.unanswered += is_answered ? 0 : 1;
    verdict.wrong += !path.outward_differences().empty() || !path.inward_differences().empty();
  }
  judge_directions(paths, verdict);
  judge_destinations(paths, verdict);
  judge_made(paths, verdict);
  if (!verdict.reasons.empty()) {
    verdict.multicast = Trust::No;
    verdict.advice =
        "set route_prot sa in /etc/rdma/ibacm_opts.cfg, and path_sources = preloaded,sa_query in "
        "/etc/wireup/wireup.conf, on every node";
  } else if (paths.empty()) {
    verdict.reasons.emplace_back(
        "no path is cached: resolve some, best to all nodes (wireup resolve), and verify again");
  } else if (verdict.unanswered > 0) {
    verdict.reasons.push_back(
        fmt::format("the SA did not answer for {} of {} paths", verdict.unanswered, paths.size()));
  } else {
    verdict.multicast = Trust::Yes;
  }
  return verdict;
}

}  // namespace wireup::tool
