// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_service.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <variant>

#include "acm/driver/sa_question.hpp"
#include "acm/engine/port_identity.hpp"

namespace wireup::acm {
namespace {

constexpr std::string_view kProvider = "wireup";
/// Questions of one user that go on although nobody waits; more are answered, but not asked.
constexpr std::size_t kUnawaitedEachUser = 256;

/// Who the port is on the fabric; nullptr while it is not served.
const PortIdentity* active_port(const ServedPort& served) noexcept {
  const PortResolver* resolver = served.resolver();
  const AcmPort* port = resolver == nullptr ? nullptr : resolver->port();
  return port == nullptr ? nullptr : &port->engine().port();
}

bool is_zero(const Gid& gid) noexcept {
  return gid == Gid{};
}

bool has_address(const ServedPort& served, const mad::AcmAddress& address) {
  if (const PortIdentity* port = active_port(served)) {
    if (address.as_gid() == port->gid) {
      return true;
    }
    if (const auto lid = address.as_lid(); lid.has_value() && has_lid(*port, *lid)) {
      return true;
    }
  }
  const auto& locals = served.options().locals;
  return std::find(locals.begin(), locals.end(), address) != locals.end();
}

ClientStatus status_of(const Error& error) noexcept {
  const auto is_one_of = [&error](std::initializer_list<Errc> codes) {
    return std::any_of(codes.begin(), codes.end(), [&](Errc code) { return error.is(code); });
  };
  if (is_one_of({Errc::Timeout, Errc::PathUnresolved})) {
    return ClientStatus::TimedOut;
  }
  if (is_one_of({Errc::NoResources, Errc::MemlockLimit})) {
    return ClientStatus::NoMemory;
  }
  return error.is(Errc::InvalidArgument) ? ClientStatus::Invalid : ClientStatus::NoData;
}

}  // namespace

ClientService::ClientService(const Options& options, const std::vector<ServedPort*>& ports)
    : options_(options), unawaited_shares_(kUnawaitedEachUser) {
  for (ServedPort* port : ports) {
    endpoints_.push_back({port, {}});
  }
}

void ClientService::count(std::size_t endpoint, ClientCounter counter) noexcept {
  ++endpoints_[endpoint].counters[static_cast<std::size_t>(counter)];
}

ClientService::Counters ClientService::counters(std::size_t number) const noexcept {
  if (number > 0) {
    return number <= endpoints_.size() ? endpoints_[number - 1].counters : Counters{};
  }
  Counters sum = nowhere_;
  for (const Endpoint& endpoint : endpoints_) {
    std::transform(sum.begin(), sum.end(), endpoint.counters.begin(), sum.begin(),
                   std::plus<std::uint64_t>());
  }
  return sum;
}

void ClientService::handle(ClientId client, uid_t user, const ClientRequest& request, Instant now) {
  if (const auto* question = std::get_if<AddressQuestion>(&request.body)) {
    handle_address(client, user, request, *question, now);
  } else if (const auto* path = std::get_if<PathQuestion>(&request.body)) {
    handle_path(client, request, *path, now);
  } else if (const auto* perf = std::get_if<PerfQuery>(&request.body)) {
    handle_perf(client, request, *perf);
  } else if (const auto* endpoint = std::get_if<EndpointQuery>(&request.body)) {
    handle_endpoint(client, request, *endpoint);
  } else {
    ++nowhere_[static_cast<std::size_t>(ClientCounter::Errors)];
    refuse(client, request, std::get<ClientRefusal>(request.body).status);
  }
}

std::optional<std::size_t> ClientService::endpoint_of(const mad::AcmAddress& address) const {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (has_address(*endpoints_[i].port, address)) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> ClientService::first_served() const {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (active_port(*endpoints_[i].port) != nullptr) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> ClientService::choose(const AddressQuestion& question,
                                                 std::optional<mad::AcmAddress>& chosen) const {
  if (question.source.has_value()) {
    return endpoint_of(*question.source);
  }
  const mad::AcmAddressType type = question.destination.type();
  if (type == mad::AcmAddressType::Ipv4 || type == mad::AcmAddressType::Ipv6) {
    chosen = options_.source_of(question.destination);
    return chosen.has_value() ? endpoint_of(*chosen) : std::nullopt;
  }
  // A name, GID or LID names no network: the first port that works, by its address of that kind.
  const auto endpoint = first_served();
  if (!endpoint.has_value()) {
    return std::nullopt;
  }
  const ServedPort& served = *endpoints_[*endpoint].port;
  const auto& locals = served.options().locals;
  const auto same =
      std::find_if(locals.begin(), locals.end(),
                   [type](const mad::AcmAddress& address) { return address.type() == type; });
  chosen = same != locals.end() ? *same : mad::AcmAddress::gid(active_port(served)->gid);
  return endpoint;
}

void ClientService::handle_address(ClientId client, uid_t user, const ClientRequest& request,
                                   const AddressQuestion& question, Instant now) {
  std::optional<mad::AcmAddress> chosen;
  const auto endpoint = choose(question, chosen);
  if (!endpoint.has_value()) {
    ++nowhere_[static_cast<std::size_t>(ClientCounter::Errors)];
    refuse(client, request, ClientStatus::SourceAddress);
    return;
  }
  const Waiting waiting{client, request, *endpoint, chosen};
  count(*endpoint, ClientCounter::Resolves);
  PortResolver* resolver = endpoints_[*endpoint].port->resolver();
  if (resolver == nullptr || resolver->port() == nullptr) {
    answer(waiting, fail(Errc::NoDevice), now);
    return;
  }
  if (const auto known = resolver->known(question.destination)) {
    count(*endpoint, ClientCounter::AddressCacheHits);
    count(*endpoint, ClientCounter::RouteCacheHits);
    answer(waiting, *known, now);
    return;
  }
  count(*endpoint, ClientCounter::AddressQueries);
  const PortResolver::AskId id = next_ask_++;
  if (question.no_delay) {
    // Nobody waits for what the port will say; a later question finds it known.
    answer(waiting, fail(Errc::Stale), now);
    if (!unawaited_shares_.take(user)) {
      return;
    }
    unawaited_.emplace(id, Unawaited{user, *endpoint});
  } else {
    waiting_.emplace(id, waiting);
  }
  resolver->ask(id, question.destination, now + options_.patience, now);
}

std::optional<std::size_t> ClientService::endpoint_for(const mad::PathRecord& path) const {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const PortIdentity* port = active_port(*endpoints_[i].port);
    if (port == nullptr) {
      continue;
    }
    const bool is_source = !is_zero(path.sgid)    ? path.sgid == port->gid
                           : !path.slid.is_zero() ? has_lid(*port, path.slid)
                           : !is_zero(path.dgid)  ? path.dgid.prefix() == port->gid.prefix()
                                                  : true;
    if (is_source && (path.pkey.value() == 0 || path.pkey.partition() == port->pkey.partition())) {
      return i;
    }
  }
  return std::nullopt;
}

void ClientService::handle_path(ClientId client, const ClientRequest& request,
                                const PathQuestion& question, Instant now) {
  const mad::PathRecord& path = question.path;
  if (path.dlid.is_zero() && is_zero(path.dgid)) {
    ++nowhere_[static_cast<std::size_t>(ClientCounter::Errors)];
    refuse(client, request, ClientStatus::DestinationAddress);
    return;
  }
  const auto endpoint = endpoint_for(path);
  if (!endpoint.has_value()) {
    ++nowhere_[static_cast<std::size_t>(ClientCounter::Errors)];
    refuse(client, request, ClientStatus::SourceAddress);
    return;
  }
  count(*endpoint, ClientCounter::Resolves);
  PortResolver& resolver = *endpoints_[*endpoint].port->resolver();
  const Waiting waiting{client, request, *endpoint, std::nullopt};
  const mad::AcmAddress destination =
      path.dlid.is_zero() ? mad::AcmAddress::gid(path.dgid) : mad::AcmAddress::lid(path.dlid);
  // What is known was learned for no service, class or SL in particular.
  const bool is_plain = path.service_id.value() == 0 && path.traffic_class == 0 &&
                        path.qos_class == 0 && path.sl.value() == 0;
  const auto known = question.query_sa || !is_plain ? std::nullopt : resolver.known(destination);
  if (known.has_value()) {
    count(*endpoint, ClientCounter::RouteCacheHits);
    answer(waiting, *known, now);
    return;
  }
  if (question.no_delay) {
    answer(waiting, fail(Errc::Stale), now);
    return;
  }
  count(*endpoint, ClientCounter::RouteQueries);
  const PortIdentity& own = *active_port(*endpoints_[*endpoint].port);
  const SaQuestion sa = question_for_sa(path, own.gid, own.pkey, question.query_sa);
  const PortResolver::AskId id = next_ask_++;
  waiting_.emplace(id, waiting);
  resolver.ask_sa(id, sa.record, sa.mask, now);
}

void ClientService::handle_perf(ClientId client, const ClientRequest& request,
                                const PerfQuery& query) {
  std::size_t number = query.endpoint;
  if (query.address.has_value()) {
    const auto endpoint = endpoint_of(*query.address);
    number = endpoint.has_value() ? *endpoint + 1 : endpoints_.size() + 1;
  }
  if (number > endpoints_.size()) {
    refuse(client, request, ClientStatus::SourceAddress);
    return;
  }
  const Counters values = counters(number);
  replies_.push_back({client,
                      {request.op, request.tid, ClientStatus::Success,
                       PerfReply{query.endpoint, {values.begin(), values.end()}}}});
}

void ClientService::handle_endpoint(ClientId client, const ClientRequest& request,
                                    const EndpointQuery& query) {
  std::size_t at = 0;
  for (const Endpoint& endpoint : endpoints_) {
    const ServedPort& served = *endpoint.port;
    if (!served.info().has_value() || (query.port != 0 && query.port != served.options().port) ||
        ++at != query.index) {
      continue;
    }
    const verbs::PortInfo& info = *served.info();
    EndpointReply reply;
    reply.query = query;
    reply.device = info.node_guid;
    reply.port = info.port;
    reply.ports = served.device_ports();
    reply.pkey = served.table_pkey().value_or(served.wanted_pkey());
    reply.provider = kProvider;
    for (const mad::AcmAddress& address : served.options().locals) {
      reply.addresses.push_back(value_text(address));
    }
    replies_.push_back({client, {request.op, request.tid, ClientStatus::Success, reply}});
    return;
  }
  refuse(client, request, ClientStatus::Invalid);
}

void ClientService::progress(Instant now) {
  for (Endpoint& endpoint : endpoints_) {
    PortResolver* resolver = endpoint.port->resolver();
    if (resolver == nullptr) {
      continue;
    }
    while (const auto ended = resolver->poll_answer()) {
      const auto at = waiting_.find(ended->id);
      if (at == waiting_.end()) {
        end_unawaited(ended->id);
        continue;
      }
      const Waiting waiting = at->second;
      waiting_.erase(at);
      answer(waiting, ended->path, now);
    }
  }
  // A port that was lost took its answers along.
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (endpoints_[at->second.endpoint].port->resolver() == nullptr) {
      answer(at->second, fail(Errc::NoDevice), now);
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
  if (options_.routed != nullptr) {
    take_routed_answers();
  }
  for (auto at = unawaited_.begin(); at != unawaited_.end();) {
    const auto here = at++;
    if (endpoints_[here->second.endpoint].port->resolver() == nullptr) {
      end_unawaited(here->first);
    }
  }
}

void ClientService::end_unawaited(PortResolver::AskId id) {
  if (const auto at = unawaited_.find(id); at != unawaited_.end()) {
    unawaited_shares_.give_back(at->second.user);
    unawaited_.erase(at);
  }
}

void ClientService::answer(const Waiting& waiting, const Result<ResolvedPath>& path, Instant now) {
  if (!path) {
    const ClientStatus status = status_of(path.error());
    count(waiting.endpoint,
          status == ClientStatus::NoData ? ClientCounter::NoData : ClientCounter::Errors);
    refuse(waiting.client, waiting.request, status);
    return;
  }
  if (options_.routed != nullptr && is_routed(path->record)) {
    const RoutedPaths::AskId id = next_ask_++;
    half_answered_.emplace(id, HalfAnswered{waiting, path->record});
    options_.routed->ask(id, path->record, now + options_.routed_patience, now);
    return;
  }
  answer_with(waiting, {{path_flag::kUniversal, path->record}});
}

/// The other subnet's part, or that it cannot be had: then what is there is the answer.
void ClientService::take_routed_answers() {
  while (const auto answer = options_.routed->poll_answer()) {
    const auto at = half_answered_.find(answer->id);
    if (at == half_answered_.end()) {
      continue;
    }
    const HalfAnswered half = at->second;
    half_answered_.erase(at);
    answer_with(half.waiting, routed_answer(half.path, answer->records.value_or(RoutedRecords())));
  }
}

void ClientService::answer_with(const Waiting& waiting, std::vector<ClientPath> paths) {
  ResolveReply reply;
  reply.paths = std::move(paths);
  reply.source = waiting.source;
  replies_.push_back(
      {waiting.client,
       {waiting.request.op, waiting.request.tid, ClientStatus::Success, std::move(reply)}});
}

void ClientService::refuse(ClientId client, const ClientRequest& request, ClientStatus status) {
  replies_.push_back({client, acm::refuse(request, status)});
}

std::optional<ClientService::Reply> ClientService::poll_reply() {
  if (replies_.empty()) {
    return std::nullopt;
  }
  Reply reply = std::move(replies_.front());
  replies_.pop_front();
  return reply;
}

}  // namespace wireup::acm
