// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/node_question.hpp"

#include <algorithm>
#include <utility>

#include "acm/client/ask_resolver.hpp"
#include "acm/client/ask_service.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/service_watch.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

using Type = mad::AcmAddressType;

bool is_path_address(const mad::AcmAddress& address) noexcept {
  return address.type() == Type::Gid || address.type() == Type::Lid;
}

NodePath own_path(const ResolvedPath& path, const verbs::PortInfo& port) {
  return {path.record,    std::string(origin_name(path.origin)),
          "this process", port.name().data(),
          path.age,       path.generation};
}

/// Asks for some of the destinations: `wanted` says which by their places, `ask` gives as many
/// answers.
template <typename Wanted, typename Ask>
void ask_some(std::span<const mad::AcmAddress> destinations, std::vector<NodeAnswer>& answers,
              Wanted wanted, Ask ask) {
  std::vector<std::size_t> places;
  std::vector<mad::AcmAddress> some;
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    if (wanted(i)) {
      places.push_back(i);
      some.push_back(destinations[i]);
    }
  }
  if (some.empty()) {
    return;
  }
  std::vector<NodeAnswer> got = ask(some);
  for (std::size_t i = 0; i < places.size(); ++i) {
    answers[places[i]] = std::move(got[i]);
  }
}

std::vector<NodeAnswer> by_multicast(const NodeQuestion& question, const verbs::PortInfo& port,
                                     std::span<const mad::AcmAddress> destinations) {
  std::vector<NodeAnswer> answers;
  for (const auto& path : ask_fabric(question.wish, question.places, destinations,
                                     monotonic_now() + question.timeout)) {
    if (path) {
      answers.emplace_back(own_path(*path, port));
    } else {
      answers.emplace_back(
          tl::unexpected(NodeRefusal{"multicast", port.name().data(), path.error()}));
    }
  }
  return answers;
}

std::vector<NodeAnswer> by_subnet(const NodeQuestion& question, const verbs::PortInfo& port,
                                  PKey pkey, std::span<const mad::AcmAddress> destinations) {
  std::vector<SaQuestion> questions;
  for (const mad::AcmAddress& destination : destinations) {
    mad::PathRecord wanted;
    wanted.sgid = port.gid;
    wanted.dgid = destination.as_gid().value_or(Gid());
    wanted.dlid = destination.as_lid().value_or(Lid());
    questions.push_back(question_for_sa(wanted, port.gid, pkey, false));
  }
  std::vector<NodeAnswer> answers;
  for (const auto& record : ask_subnet(port, questions, monotonic_now() + question.timeout)) {
    if (record) {
      answers.emplace_back(NodePath{*record, std::string(origin_name(PathOrigin::SaQuery)),
                                    "this process", port.name().data(), Duration::zero(),
                                    std::nullopt});
    } else {
      answers.emplace_back(
          tl::unexpected(NodeRefusal{"subnet administrator", port.name().data(), record.error()}));
    }
  }
  return answers;
}

void by_resolver(const NodeQuestion& question, const verbs::PortInfo& port, PKey pkey,
                 std::span<const mad::AcmAddress> destinations, std::vector<NodeAnswer>& answers) {
  const auto paths =
      ask_resolver(question.places, port, pkey, destinations, monotonic_now() + question.timeout);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i]) {
      NodePath path = own_path(*paths[i], port);
      path.answered_by = "a rank of a job";
      answers[i] = std::move(path);
    } else {
      answers[i] = tl::unexpected(NodeRefusal{"resolver", port.name().data(), paths[i].error()});
    }
  }
}

void ask_without_service(const NodeQuestion& question,
                         std::span<const mad::AcmAddress> destinations,
                         std::vector<NodeAnswer>& answers) {
  const auto refuse_all = [&answers](const char* step, const std::string& place,
                                     const Error& error) {
    std::fill(answers.begin(), answers.end(),
              NodeAnswer(tl::unexpected(NodeRefusal{step, place, error})));
  };
  const auto port = choose_local_port(question.wish);
  if (!port) {
    refuse_all("port", question.wish.device, port.error());
    return;
  }
  const auto pkey = question.wish.pkey.has_value() ? port->pkey_index(*question.wish.pkey)
                                                   : port->usual_pkey_index();
  if (!pkey.has_value() || *pkey >= port->pkeys.size()) {
    refuse_all("port", port->name().data(),
               Error::make(Errc::InvalidArgument, "%s has no such P_Key in its table",
                           port->name().data()));
    return;
  }
  const PKey partition = port->pkeys[*pkey];
  const auto directory = NodeDirectory::open(
      question.places.directory, question.places.cache_directory, port->port_guid, partition);
  if (!directory) {
    refuse_all("resolver", port->name().data(), directory.error());
    return;
  }
  const Instant now = monotonic_now();
  const auto lock = NodeLock::status(directory->lock_path(), now);
  if ((lock && lock->is_held) ||
      ServiceWatch(question.places.public_directory, port->port_guid, partition).is_there(now)) {
    by_resolver(question, *port, partition, destinations, answers);
    // A LID whose port runs no ACM: the SA knows it.
    ask_some(
        destinations, answers,
        [&](std::size_t i) { return destinations[i].type() == Type::Lid && !answers[i]; },
        [&](const auto& some) { return by_subnet(question, *port, partition, some); });
    return;
  }
  ask_some(
      destinations, answers, [&](std::size_t i) { return is_path_address(destinations[i]); },
      [&](const auto& some) { return by_subnet(question, *port, partition, some); });
  ask_some(
      destinations, answers, [&](std::size_t i) { return !is_path_address(destinations[i]); },
      [&](const auto& some) {
        NodeQuestion on_port = question;
        // The port and partition that were just looked at, whoever chose them.
        if (question.wish.device.empty() && !question.wish.source.has_value()) {
          on_port.wish.device = port->device;
          on_port.wish.port = port->port;
        }
        on_port.wish.pkey = partition;
        return by_multicast(on_port, *port, some);
      });
}

}  // namespace

std::vector<NodeAnswer> ask_node(const NodeQuestion& question,
                                 std::span<const mad::AcmAddress> destinations) {
  std::vector<NodeAnswer> answers(destinations.size(), tl::unexpected(NodeRefusal{}));
  if (!destinations.empty() && !ask_service(question, destinations, answers)) {
    ask_without_service(question, destinations, answers);
  }
  return answers;
}

}  // namespace wireup::acm
