// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/cm.h>
#include <semaphore.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/unique_fd.hpp"
#include "cm/engine/engine.hpp"
#include "cm/libibcm/objects.hpp"
#include "cm/libibcm/port.hpp"

namespace wireup::cm::ibcm {

/// A port with its connections. Ports have an engine each: LIDs of two subnets may be equal.
struct Side {
  std::unique_ptr<Port> port;
  Engine engine;
  std::map<Handle, CmId*> connections;
  std::map<ResolutionId, CmId*> resolutions;
};

/// What a program opens: the connections of a device's ports, their events, and a thread that does
/// what the kernel did for programs of libibcm while they were busy with something else: it
/// repeats, receives, and answers what needs no program. Every call may come from any thread.
///
/// Errors as those of Engine's commands, besides: Errc::InvalidState for a cm_id that is busy with
/// something else. Where an Errc::InvalidState has an errno value, that is what the program gets.
class Device : public ib_cm_device {
 public:
  /// Errc::NoResources: no descriptors or no thread are to be had.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(
      ibv_context* context, std::vector<std::unique_ptr<Port>> ports);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Ends what is left as destroy() does, without waiting for answers.
  ~Device();

  [[nodiscard]] CmId& create(void* context);
  /// Waits until all events of the id are acknowledged.
  void destroy(CmId& id);
  /// Blocks unless O_NONBLOCK is set on fd. errno: EAGAIN, EINTR.
  [[nodiscard]] Result<EventBox*> next_event();

  [[nodiscard]] Result<> listen(CmId& id, ServiceId service_id, std::uint64_t mask);
  [[nodiscard]] ib_cm_attr_param attributes(CmId& id);
  [[nodiscard]] Result<QpAttributes> qp_attributes(CmId& id, ibv_qp_state target);
  [[nodiscard]] Result<> send_req(CmId& id, const ib_cm_req_param& param);
  [[nodiscard]] Result<> send_rep(CmId& id, const ib_cm_rep_param& param);
  [[nodiscard]] Result<> notify(CmId& id, ibv_event_type event);
  [[nodiscard]] Result<> send_rej(CmId& id, mad::RejReason reason,
                                  std::span<const std::uint8_t> ari,
                                  std::span<const std::uint8_t> private_data);
  [[nodiscard]] Result<> send_lap(CmId& id, const ibv_sa_path_rec& path,
                                  std::span<const std::uint8_t> private_data);
  [[nodiscard]] Result<> send_apr(CmId& id, std::uint8_t status, std::span<const std::uint8_t> info,
                                  std::span<const std::uint8_t> private_data);
  [[nodiscard]] Result<> send_sidr_req(CmId& id, const ib_cm_sidr_req_param& param);
  [[nodiscard]] Result<> send_sidr_rep(CmId& id, const ib_cm_sidr_rep_param& param);

  /// A command of the engine for the connection of an id, `act(Engine&, Handle, Instant)`.
  template <typename Act>
  [[nodiscard]] Result<> command(CmId& id, Act act);

 private:
  Device() = default;
  [[nodiscard]] Result<> start();
  void serve();
  /// Takes everything out of the engine, and sets the timer.
  void pump(Side& side);
  void pump_all();
  void set_timer();
  void push(std::unique_ptr<EventBox> box);
  /// Takes the first event; fd is not readable any more when it was the last.
  [[nodiscard]] std::unique_ptr<EventBox> take_first();
  void clear_if_empty();

  // Ids (ids.cpp).
  [[nodiscard]] CmId& add_id(void* context);
  void free_id(CmId& id);
  void bind(CmId& id, Side& side, Handle connection);
  void unbind(CmId& id) noexcept;
  void remember_ids(CmId& id) noexcept;
  /// Ends what the id is busy with, towards the peer too.
  void withdraw(CmId& id);
  void drop_events_of(const CmId& id);
  [[nodiscard]] CmId* listener_of(ServiceId service_id) const;
  [[nodiscard]] Result<Side*> side_of(const mad::PathRecord& path);
  [[nodiscard]] static Result<LocalPath> local_path(const Side& side, const mad::PathRecord& path);

  // What engines tell (translate.cpp).
  void on(Side& side, const ReqReceived& event);
  void on(Side& side, const RepReceived& event);
  void on(Side& side, const Established& event);
  void on(Side& side, const Rejected& event);
  void on(Side& side, const Failed& event);
  void on(Side& side, const Disconnected& event);
  void on(Side& side, const TimewaitExit& event);
  void on(Side& side, const MraReceived& event);
  void on(Side& side, const AlternateOffered& event);
  void on(Side& side, const AlternateAnswered& event);
  void on(Side& side, const AlternateFailed& event);
  void on(Side& side, const SidrReqReceived& event);
  void on(Side& side, const SidrRepReceived& event);
  void on(Side& side, const SidrFailed& event);
  void push_error(ib_cm_event_type type, CmId& id);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  UniqueFd events_fd_;
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd stop_;
  sem_t ready_{};
  bool has_semaphore_ = false;
  std::vector<std::unique_ptr<Side>> sides_;
  std::set<CmId*> ids_;
  std::deque<std::unique_ptr<EventBox>> queue_;
  std::uint32_t next_handle_ = 0;
  std::uint64_t next_service_ = 0;
  std::thread thread_;
};

/// libibcm's ways: the messages' timers, and a program that answers DREQ and LAP itself.
[[nodiscard]] Policy usual_policy() noexcept;
[[nodiscard]] Error not_connected(const CmId& id) noexcept;

template <typename Act>
Result<> Device::command(CmId& id, Act act) {
  const std::lock_guard lock(shared_->mutex);
  if (!id.connection.has_value()) {
    return fail(not_connected(id));
  }
  Side& side = *id.side;
  const Handle connection = *id.connection;
  Result<> done = act(side.engine, connection, monotonic_now());
  pump(side);
  if (!side.engine.state(connection).has_value()) {
    unbind(id);
  }
  return done;
}

}  // namespace wireup::cm::ibcm
