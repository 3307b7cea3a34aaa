// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "pmix/driver/exchange.hpp"
#include "pmix/driver/mailbox.hpp"
#include "pmix/driver/pmix_exchange.hpp"
#include "pmix/driver/service.hpp"
#include "pmix/engine/lookup_engine.hpp"

namespace wireup::pmix {

/// The exchange over a Service: carries replies from the mailbox to the lookup engine and the
/// engine's calls to the service. open_pmix_exchange() makes one over the process's own service;
/// tests make one over a service with a library of theirs. The service outlives it.
class ServiceExchange final : public Exchange {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Exchange>> open(Service& service,
                                                              const PmixOptions& options);

  ~ServiceExchange() override;
  ServiceExchange(const ServiceExchange&) = delete;
  ServiceExchange& operator=(const ServiceExchange&) = delete;

  [[nodiscard]] const JobInfo& job() const noexcept override { return job_; }
  Result<> publish(std::span<const std::uint8_t> card) override;
  [[nodiscard]] PublishState publish_state() const noexcept override { return state_; }
  Result<> request(const PeerRef& peer, Instant deadline, Instant now) override;
  [[nodiscard]] std::optional<CardResult> poll(Instant now) override;
  [[nodiscard]] int fd() const noexcept override { return mailbox_->fd(); }
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept override {
    return engine_.poll_timeout();
  }
  Result<> close(Instant deadline) override;

 private:
  ServiceExchange(Service& service, JobInfo job, std::shared_ptr<Mailbox> mailbox, bool collect);

  void take_part_without_card();
  void send_calls(Instant now);
  void read_mailbox(Instant now);
  void end_publish(const PublishEnded& ended);

  Service& service_;
  const JobInfo job_;
  const std::shared_ptr<Mailbox> mailbox_;
  const bool collect_;
  const std::string key_;
  LookupEngine engine_;
  PublishState state_ = PublishState::NotPublished;
  PublishEnded failure_;
  bool closed_ = false;
};

}  // namespace wireup::pmix
