// SPDX-License-Identifier: BSD-3-Clause
// `wireup verify`: the node cache against the subnet administrator.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "acm/client/cache_view.hpp"
#include "acm/client/local_port.hpp"
#include "acm/client/own_question.hpp"
#include "base/clock.hpp"
#include "command.hpp"
#include "common.hpp"
#include "verify_report.hpp"

namespace wireup::tool {
namespace {

struct Options {
  CommonOptions common;
  bool is_all = false;
  double timeout_seconds = 60;
};

/// What the SA is asked to check an entry: its record's two ends, the partition, and what the entry
/// was a demand for.
acm::SaQuestion question_about(const acm::CachedPath& entry, bool is_inward) {
  const mad::PathRecord& record = entry.path.record;
  mad::PathRecord wanted;
  wanted.sgid = is_inward ? record.dgid : record.sgid;
  wanted.dgid = is_inward ? record.sgid : record.dgid;
  wanted.pkey = entry.key.pkey;
  if (entry.key.number != 0) {
    // One of several between the same ports: its LIDs tell which.
    wanted.slid = is_inward ? record.dlid : record.slid;
    wanted.dlid = is_inward ? record.slid : record.dlid;
  }
  wanted.service_id = is_inward ? ServiceId() : entry.key.service_id;
  wanted.sl = is_inward ? Sl() : entry.key.sl.value_or(Sl());
  return acm::question_for_sa(wanted, wanted.sgid, wanted.pkey, false);
}

VerifyReport check(const verbs::PortInfo& port, acm::CacheView view, Instant deadline) {
  // The path from a port to itself is made up here, and no packet of it is seen on the fabric.
  std::erase_if(view.entries, [](const acm::CachedPath& entry) {
    return entry.path.record.sgid == entry.path.record.dgid;
  });
  std::vector<acm::SaQuestion> questions;
  for (const acm::CachedPath& entry : view.entries) {
    questions.push_back(question_about(entry, false));
    questions.push_back(question_about(entry, true));
  }
  const auto answers = acm::ask_subnet(port, questions, deadline);
  VerifyReport report{port.name().data(), view.file.path, PKey(view.file.partition), {}, {}};
  // Where the SA does not tell, all count.
  const auto switches = acm::ask_switches(port, deadline).value_or(std::vector<Guid>());
  for (std::size_t i = 0; i < view.entries.size(); ++i) {
    const Guid there = view.entries[i].path.record.dgid.interface_id();
    const bool is_switch = std::find(switches.begin(), switches.end(), there) != switches.end();
    report.paths.push_back({view.entries[i], answers[2 * i], answers[2 * i + 1], is_switch});
  }
  report.verdict = judge(report.paths);
  return report;
}

int verify(const Options& options) {
  const auto settings = read_settings(options.common);
  if (!settings) {
    complain(settings.error().what());
    return kUnable;
  }
  const acm::PortWish wish = port_wish(*settings);
  const Instant deadline =
      monotonic_now() +
      std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  const auto caches = acm::find_caches(node_places(*settings));
  std::vector<VerifyReport> reports;
  for (const verbs::PortInfo& port : acm::infiniband_ports()) {
    const bool is_meant = (wish.device.empty() || wish.device == port.device) &&
                          (!wish.port.has_value() || *wish.port == port.port);
    for (const acm::CacheFile& file : caches) {
      if (!is_meant || file.port_guid != port.port_guid ||
          (wish.pkey.has_value() && wish.pkey->partition() != file.partition)) {
        continue;
      }
      auto view = acm::view_cache(file, monotonic_now());
      if (!view) {
        complain(view.error().what());
        return kUnable;
      }
      if (auto able = acm::try_subnet(port); !able) {
        complain(able.error().what());
        return kUnable;
      }
      VerifyReport report = check(port, std::move(*view), deadline);
      report.pkey = port.table_pkey(PKey(file.partition)).value_or(PKey(file.partition));
      reports.push_back(std::move(report));
    }
  }
  if (reports.empty()) {
    complain(
        fmt::format("no port of this node has a node cache in {} or {} that this user may read: "
                    "resolve something first, or run as the service's user",
                    settings->cache_directory(), acm::kPublicDirectory));
    return kUnable;
  }
  int status = kGood;
  auto list = nlohmann::ordered_json::array();
  for (const VerifyReport& report : reports) {
    const Verdict& verdict = report.verdict;
    status =
        verdict.wrong + verdict.unanswered > 0 || verdict.multicast == Trust::No ? kBad : status;
    if (options.common.is_json) {
      list.push_back(verify_json(report));
    } else {
      print_line(verify_text(report, options.is_all));
    }
  }
  if (options.common.is_json) {
    print_list("caches", std::move(list));
  }
  return status;
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "verify", "compares the cached paths with the subnet administrator's, both ways");
  command->add_flag("-a,--all", options->is_all, "print good paths too");
  command
      ->add_option("-t,--timeout", options->timeout_seconds, "seconds to wait for all answers (60)")
      ->check(CLI::Range(0.001, 86400.0));
  add_device(*command, options->common);
  add_pkey(*command, options->common);
  add_json(*command, options->common);
  command->callback([options, &action] { action = [options] { return verify(*options); }; });
}

}  // namespace wireup::tool
