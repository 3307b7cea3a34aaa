// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/ask_service.hpp"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "acm/client/cache_view.hpp"
#include "acm/client/local_port.hpp"
#include "acm/client/service_call.hpp"
#include "acm/client/service_view.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

/// Questions to the service at the same time.
constexpr std::size_t kAskers = 8;

/// What an administrator can do about a refusal.
std::string_view advice(ClientStatus status) noexcept {
  switch (status) {
    case ClientStatus::NoData:
    case ClientStatus::TimedOut:
    case ClientStatus::DestinationAddress:
      return "is it spelled right, is its node up, and does an ACM run there?";
    case ClientStatus::SourceAddress:
    case ClientStatus::SourceType:
      return "name one of this node's ACM addresses as --source; `wireup doctor` lists them";
    case ClientStatus::NotConnected:
      return "its port is not ready; `wireup doctor` says why";
    case ClientStatus::NoMemory:
      return "try again";
    default:
      return "look into the service's log";
  }
}

class ServiceAsker {
 public:
  ServiceAsker(const NodeQuestion& question, ServiceView view)
      : question_(question),
        view_(std::move(view)),
        name_(view_.name()),
        caches_(find_caches(question.places)) {}

  /// Finds the endpoint that the wish means. False with the refusal for all.
  [[nodiscard]] tl::expected<void, NodeRefusal> choose_endpoint() {
    const PortWish& wish = question_.wish;
    for (const EndpointReply& endpoint : view_.endpoints) {
      auto port = port_of(endpoint);
      const bool is_device = wish.device.empty() || (port && port->device == wish.device);
      const bool is_port = !wish.port.has_value() || endpoint.port == *wish.port;
      const bool is_partition =
          !wish.pkey.has_value() || wish.pkey->partition() == endpoint.pkey.partition();
      if (is_device && is_port && is_partition) {
        source_ = address_of(endpoint);
        if (port) {
          port_ = std::move(*port);
        }
        return {};
      }
    }
    if (wish.device.empty() && !wish.port.has_value() && !wish.pkey.has_value()) {
      return {};
    }
    return tl::unexpected(NodeRefusal{
        "service", question_.socket,
        Error::make(Errc::NotFound,
                    "%s at %s serves no port and P_Key as asked for (device %s): `wireup doctor` "
                    "lists what it serves",
                    name_.c_str(), question_.socket.c_str(),
                    wish.device.empty() ? "any" : wish.device.c_str())});
  }

  [[nodiscard]] NodeAnswer ask(const mad::AcmAddress& destination, std::uint64_t number) const {
    ClientRequest request;
    request.op = ClientOp::Resolve;
    request.tid = Tid(number);
    request.body = body(destination);
    const auto reply = call_service(question_.socket, request, monotonic_now() + question_.timeout);
    if (!reply) {
      return refuse(reply.error());
    }
    if (reply->status != ClientStatus::Success) {
      const std::string_view sentence = status_sentence(reply->status);
      const std::string_view help = advice(reply->status);
      return refuse(Error::make(
          reply->status == ClientStatus::TimedOut ? Errc::Timeout : Errc::PathUnresolved,
          "%s refuses %s (%.*s): %.*s; %.*s", name_.c_str(), to_text(destination).c_str(),
          static_cast<int>(status_name(reply->status).size()), status_name(reply->status).data(),
          static_cast<int>(sentence.size()), sentence.data(), static_cast<int>(help.size()),
          help.data()));
    }
    const auto* resolved = std::get_if<ResolveReply>(&reply->body);
    if (resolved == nullptr || resolved->paths.empty()) {
      return refuse(Error::make(Errc::Malformed, "%s answers without a path", name_.c_str()));
    }
    return complete(resolved->paths.front().record);
  }

 private:
  static Result<verbs::PortInfo> port_of(const EndpointReply& endpoint) {
    const auto device = open_device(endpoint.device);
    return device ? device->query_port(endpoint.port) : fail(device.error());
  }

  [[nodiscard]] ClientRequest::Body body(const mad::AcmAddress& destination) const {
    const auto gid = destination.as_gid();
    const auto lid = destination.as_lid();
    if (gid.has_value() || lid.has_value()) {
      PathQuestion path;
      path.path.dgid = gid.value_or(Gid());
      path.path.dlid = lid.value_or(Lid());
      path.path.sgid = port_.has_value() ? port_->gid : Gid();
      path.path.pkey = question_.wish.pkey.value_or(PKey());
      path.path.reversible = true;
      path.path.numb_path = 1;
      return path;
    }
    AddressQuestion address{question_.wish.source, destination, std::nullopt, false};
    // ibacm chooses a source for IP addresses only; we do for all.
    const bool is_name = destination.type() == mad::AcmAddressType::Name;
    const bool is_port_named = !question_.wish.device.empty() || question_.wish.pkey.has_value();
    if (!address.source.has_value() && (is_name || is_port_named)) {
      address.source = source_;
    }
    return address;
  }

  [[nodiscard]] NodeAnswer refuse(const Error& error) const {
    return tl::unexpected(
        NodeRefusal{"service", port_.has_value() ? port_->name().data() : question_.socket, error});
  }

  [[nodiscard]] NodeAnswer complete(const mad::PathRecord& record) const {
    NodePath path{record, "unknown", name_, "", std::nullopt, std::nullopt};
    if (name_ == "ibacm") {
      path.origin = "ibacm";
    } else if (const auto cached = find_record(caches_, record, monotonic_now())) {
      path.origin = std::string(origin_name(cached->origin));
      path.age = cached->age;
      path.generation = cached->generation;
    }
    if (port_.has_value() && port_->gid == record.sgid) {
      path.place = port_->name().data();
    } else if (const auto port = find_port(record)) {
      path.place = port->name().data();
    }
    return path;
  }

  const NodeQuestion& question_;
  ServiceView view_;
  std::string name_;
  std::vector<CacheFile> caches_;
  /// Of the endpoint that was chosen.
  std::optional<mad::AcmAddress> source_;
  std::optional<verbs::PortInfo> port_;
};

}  // namespace

bool ask_service(const NodeQuestion& question, std::span<const mad::AcmAddress> destinations,
                 std::vector<NodeAnswer>& answers) {
  auto view = view_service(question.socket, monotonic_now() + question.timeout);
  if (!view && view.error().is(Errc::NotFound)) {
    return false;
  }
  const auto refuse_all = [&answers](const NodeRefusal& refusal) {
    std::fill(answers.begin(), answers.end(), NodeAnswer(tl::unexpected(refusal)));
  };
  if (!view) {
    refuse_all({"service", question.socket, view.error()});
    return true;
  }
  ServiceAsker asker(question, std::move(*view));
  if (auto chosen = asker.choose_endpoint(); !chosen) {
    refuse_all(chosen.error());
    return true;
  }
  // Names that nobody has take seconds each, so some are asked for at the same time. Each asker
  // takes the next destination and writes to its place alone.
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < destinations.size(); i = next++) {
      answers[i] = asker.ask(destinations[i], i + 1);
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min(kAskers, destinations.size()); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) {
    other.join();
  }
  return true;
}

}  // namespace wireup::acm
