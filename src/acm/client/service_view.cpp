// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/service_view.hpp"

#include <utility>
#include <variant>

#include "acm/client/address.hpp"
#include "acm/client/service_call.hpp"

namespace wireup::acm {

std::string ServiceView::name() const {
  if (endpoints.empty()) {
    return "a service";
  }
  const std::string& provider = endpoints.front().provider;
  return provider == "wireup" ? "wireup serve" : provider == "ibacmp" ? "ibacm" : provider;
}

Result<ServiceView> view_service(const std::string& path, Instant deadline) {
  ServiceView view;
  for (std::size_t index = 1; index <= kMaxEndpoints; ++index) {
    ClientRequest request;
    request.op = ClientOp::EndpointQuery;
    request.tid = Tid(index);
    request.body = EndpointQuery{static_cast<std::uint8_t>(index), 0};
    auto reply = call_service(path, request, deadline);
    if (!reply) {
      return fail(reply.error());
    }
    auto* endpoint = std::get_if<EndpointReply>(&reply->body);
    if (reply->status != ClientStatus::Success || endpoint == nullptr) {
      break;
    }
    view.endpoints.push_back(std::move(*endpoint));
  }
  return view;
}

std::optional<mad::AcmAddress> address_of(const EndpointReply& endpoint) {
  std::optional<mad::AcmAddress> first;
  for (const std::string& text : endpoint.addresses) {
    const auto address = read_address(text, AddressForm::Guessed);
    if (!address) {
      continue;
    }
    if (address->type() == mad::AcmAddressType::Name) {
      return *address;
    }
    if (!first.has_value()) {
      first = *address;
    }
  }
  return first;
}

Result<std::optional<ClientStatus>> try_endpoint(const std::string& path,
                                                 const EndpointReply& endpoint, Instant deadline) {
  const auto own = address_of(endpoint);
  if (!own.has_value()) {
    return std::nullopt;
  }
  ClientRequest request;
  request.op = ClientOp::Resolve;
  request.tid = Tid(1);
  request.body = AddressQuestion{*own, *own, std::nullopt, false};
  const auto reply = call_service(path, request, deadline);
  if (!reply) {
    return fail(reply.error());
  }
  return reply->status;
}

}  // namespace wireup::acm
