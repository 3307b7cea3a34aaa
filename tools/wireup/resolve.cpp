// SPDX-License-Identifier: BSD-3-Clause
// `wireup resolve`: paths to names, IP addresses, GIDs and LIDs.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "acm/client/node_question.hpp"
#include "command.hpp"
#include "common.hpp"
#include "resolve_report.hpp"
#include "targets.hpp"

namespace wireup::tool {
namespace {

struct Options {
  CommonOptions common;
  std::vector<std::string> words;
  std::string source;
  bool is_lid = false;
  double timeout_seconds = 10;
};

/// What every way to say whose paths are wanted comes to.
Result<std::vector<Target>> collect_targets(const Options& options) {
  return parse_targets(options.words, options.is_lid ? TargetKind::Lid : TargetKind::Any);
}

Result<acm::NodeQuestion> question_of(const Options& options) {
  const auto settings = read_settings(options.common);
  if (!settings) {
    return fail(settings.error());
  }
  acm::NodeQuestion question;
  question.wish = port_wish(*settings);
  if (!options.source.empty()) {
    const auto source = parse_target(options.source, TargetKind::Any);
    if (!source) {
      return fail(source.error());
    }
    question.wish.source = source->address;
  }
  question.socket = settings->service_socket();
  question.places = node_places(*settings);
  question.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  return question;
}

int resolve(const Options& options) {
  const auto targets = collect_targets(options);
  if (!targets) {
    complain(targets.error().what());
    return kUnable;
  }
  const auto question = question_of(options);
  if (!question) {
    complain(question.error().what());
    return kUnable;
  }
  std::vector<mad::AcmAddress> addresses;
  addresses.reserve(targets->size());
  for (const Target& target : *targets) {
    addresses.push_back(target.address);
  }
  const std::vector<acm::NodeAnswer> answers = acm::ask_node(*question, addresses);
  int status = kGood;
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Target& target = (*targets)[i];
    status = answers[i] ? status : kBad;
    if (options.common.is_json) {
      list.push_back(resolve_json(target, answers[i]));
    } else if (answers[i]) {
      print_line(resolve_line(target, *answers[i]));
    } else {
      complain(failure_line(target, answers[i].error()));
    }
  }
  if (options.common.is_json) {
    print_list("paths", std::move(list));
  }
  return status;
}

}  // namespace

void add_resolve(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("resolve", "the paths to names, IP addresses, GIDs and LIDs");
  command
      ->add_option("target", options->words,
                   "name, IP address, GID, or lid:NUMBER; ranges as in node[1-16,20]")
      ->required();
  command->add_option("-s,--source", options->source,
                      "an address of the port to resolve from, written like a target");
  command->add_flag("-l,--lid", options->is_lid, "bare targets are LIDs");
  command
      ->add_option("-t,--timeout", options->timeout_seconds, "seconds to wait for an answer (10)")
      ->check(CLI::Range(0.001, 86400.0));
  add_device(*command, options->common);
  add_pkey(*command, options->common);
  add_socket(*command, options->common);
  add_json(*command, options->common);
  command->callback([options, &action] { action = [options] { return resolve(*options); }; });
}

}  // namespace wireup::tool
