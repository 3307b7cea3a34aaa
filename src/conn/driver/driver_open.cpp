// SPDX-License-Identifier: BSD-3-Clause
// How a driver comes to life and ends.
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "conn/driver/driver.hpp"
#include "mad/header.hpp"
#include "pmix/engine/card.hpp"

namespace wireup::conn {
namespace {

Result<std::uint64_t> random_number() {
  std::uint64_t value = 0;
  while (value == 0) {
    if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
      return fail(Error::system(Errc::NoResources, errno, "reading random numbers"));
    }
  }
  return value;
}

constexpr std::uint8_t kMaxOutstandingReads = 16;

}  // namespace

Driver::Driver(Parts parts, const Options& options) noexcept
    : parts_(std::move(parts)), options_(options), job_(parts_.exchange->job()) {}

Driver::~Driver() {
  stop_helper();
}

Result<std::unique_ptr<Driver>> Driver::open(Parts parts, const Options& options) {
  std::unique_ptr<Driver> driver(new Driver(std::move(parts), options));
  for (const auto step :
       {&Driver::make_endpoint, &Driver::watch_all, &Driver::publish_card, &Driver::start_helper}) {
    if (auto done = (driver.get()->*step)(); !done) {
      return fail(done.error());
    }
  }
  return driver;
}

Result<> Driver::make_endpoint() {
  const verbs::Device& device = parts_.port.device;
  const verbs::PortInfo& port = parts_.port.info;
  const auto pkey = choose_pkey(port, options_.pkey);
  if (!pkey) {
    return fail(pkey.error());
  }
  pkey_ = *pkey;
  pkey_index_ = *port.pkey_index(pkey_);

  auto pd = verbs::Pd::open(device);
  if (!pd) {
    return fail(pd.error());
  }
  pd_ = std::move(*pd);
  const auto cq_entries = [this](std::uint32_t depth) {
    return options_.cq_entries != 0 ? options_.cq_entries : cq_entries_for(job_.size, depth);
  };
  auto send_cq = verbs::Cq::open(device, cq_entries(options_.send_depth));
  if (!send_cq) {
    return fail(send_cq.error());
  }
  send_cq_ = std::move(*send_cq);
  auto receive_cq = verbs::Cq::open(device, cq_entries(options_.receive_depth));
  if (!receive_cq) {
    return fail(receive_cq.error());
  }
  receive_cq_ = std::move(*receive_cq);

  cm::Carrier::Options carrier_options;
  carrier_options.forced = options_.carrier;
  carrier_options.forced_by = options_.carrier_set_by;
  carrier_options.ud.port = port.port;
  carrier_options.ud.pkey_index = pkey_index_;
  carrier_options.ud.qkey = job_qkey(job_.id().job);
  carrier_options.gsi.device = device.name();
  carrier_options.gsi.port = port.port;
  carrier_options.gsi.pkey_index = pkey_index_;
  auto carrier = cm::Carrier::open(device, carrier_options);
  if (!carrier) {
    return fail(carrier.error());
  }
  carrier_.emplace(std::move(*carrier));
  if (auto done = open_capture(); !done) {
    return done;
  }

  QpTable::Options qp_options;
  qp_options.qp.send_depth = options_.send_depth;
  qp_options.qp.receive_depth = options_.receive_depth;
  qp_options.qp.send_parts = options_.max_sge;
  qp_options.qp.receive_parts = options_.max_sge;
  qp_options.qp.inline_size = options_.inline_size;
  qp_options.port = port.port;
  qp_options.pkey_index = pkey_index_;
  qp_options.spare = options_.spare_qps;
  qps_.emplace(pd_, send_cq_.raw(), receive_cq_.raw(), qp_options);

  const auto incarnation = random_number();
  const auto seed = random_number();
  if (!incarnation || !seed) {
    return fail(!incarnation ? incarnation.error() : seed.error());
  }
  Config config;
  config.self = job_.id();
  config.job_size = job_.size;
  config.incarnation = *incarnation;
  config.port_name = port.name().data();
  config.ca_guid = port.node_guid;
  config.gid = port.gid;
  config.lid = port.lid;
  config.lmc = port.lmc;
  config.pkey = pkey_;
  config.mtu = port.active_mtu;
  config.responder_resources = std::min(kMaxOutstandingReads, device.limits().max_qp_rd_atom);
  config.initiator_depth = std::min(kMaxOutstandingReads, device.limits().max_qp_init_rd_atom);
  config.retry_count = options_.retry_count;
  config.rnr_retry_count = options_.rnr_retry_count;
  config.accept_timeout = options_.accept_timeout;
  config.cm.ca_ack_delay = IbTimeout(device.limits().local_ca_ack_delay);
  // Between ranks of a job a lost message should cost little: many tries within each deadline.
  config.cm.initial_rto = std::chrono::milliseconds(500);
  config.cm.min_rto = std::chrono::milliseconds(200);
  config.cm.max_rto = std::chrono::seconds(2);
  config.cm.disconnect_deadline = std::chrono::seconds(15);
  engine_.emplace(config, Rng(*seed));
  resolutions_.emplace(config);
  partitions_.emplace(pkey_, acm::CacheVersion{});
  // The first connect shall find a queue pair.
  while (qps_->make_spare()) {
  }
  return {};
}

Result<> Driver::open_capture() {
  if (options_.cm_capture.empty()) {
    return {};
  }
  const verbs::PortInfo& port = parts_.port.info;
  const bool is_qp1 = carrier_->qpn() == Qpn(mad::kGsiQpn);
  auto capture = cm::Capture::open(options_.cm_capture,
                                   {.port = port.name().data(),
                                    .lid = port.lid,
                                    .gid = port.gid,
                                    .pkey = pkey_,
                                    .qpn = carrier_->qpn(),
                                    .qkey = is_qp1 ? QKey(mad::kGsiQKey) : job_qkey(job_.id().job),
                                    .rank = job_.id().rank,
                                    .job_size = job_.size});
  if (!capture) {
    return fail(capture.error());
  }
  capture_.emplace(std::move(*capture));
  return {};
}

Result<> Driver::watch_all() {
  auto waker = Waker::open(!options_.helper_thread);
  if (!waker) {
    return fail(waker.error());
  }
  waker_ = std::move(*waker);
  for (const int fd : {carrier_->fd(), parts_.paths->fd(), parts_.exchange->fd()}) {
    if (auto done = waker_.watch(fd); !done) {
      return done;
    }
  }
  return {};
}

Result<> Driver::publish_card() {
  const verbs::PortInfo& port = parts_.port.info;
  pmix::CardPort entry;
  entry.node_guid = port.node_guid;
  entry.port_guid = port.port_guid;
  entry.gid = port.gid;
  entry.lid = port.lid;
  entry.pkey = pkey_;
  entry.cm_qpn = carrier_->qpn();
  entry.number = port.port;
  entry.lmc = port.lmc;
  entry.mtu = port.active_mtu;
  entry.rate = port.active_rate;
  pmix::Card card;
  card.incarnation = engine_->config().incarnation;
  card.owner = job_.id();
  card.cm_qkey = job_qkey(job_.id().job);
  card.ports = {entry};
  const auto bytes = pmix::serialize(card);
  if (!bytes) {
    return fail(bytes.error());
  }
  return parts_.exchange->publish(*bytes);
}

Result<> Driver::shutdown(Duration limit) {
  stop_helper();
  const std::unique_lock lock(mutex_);
  const Instant start = monotonic_now();
  const Instant deadline = start + limit;
  // The last part is for the exchange, which has to be left in order as well.
  const Instant peers_deadline = start + limit / 4 * 3;
  Result<> result;
  engine_->close_all(start);
  while (result && !engine_->is_closed()) {
    result = turn(Sleep::Next);
    const Instant now = monotonic_now();
    if (engine_->is_closed() || !result) {
      break;
    }
    if (now >= peers_deadline) {
      result = fail(Error::make(Errc::Timeout,
                                "%s: some peers did not confirm the end of their connections",
                                parts_.port.info.name().data()));
      break;
    }
    const auto next = next_deadline().value_or(peers_deadline);
    const auto wait = std::clamp<Duration>(std::min(next, peers_deadline) - now, Duration(0),
                                           std::chrono::milliseconds(100));
    pollfd entry{waker_.fd(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
  }
  if (auto left = parts_.exchange->close(deadline); !left && result) {
    result = left;
  }
  return result;
}

}  // namespace wireup::conn
