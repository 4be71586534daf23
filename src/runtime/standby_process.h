#pragma once

#include <optional>

#include "link/replica.h"
#include "runtime/mirror.h"

namespace archipelago::runtime {

// The standby syncer until the syncer dies, hangs or concludes the run.
class StandbyProcess {
 public:
  enum class End {
    take_over,  // the syncer is dead or silent
    concluded,  // the run is over; nobody died
    concluded_after_losses,
  };

  // `silence`: seconds without a word from the syncer after which its term is over. References must
  // outlive this.
  StandbyProcess(link::ReplicaReceiver& syncer, Mirror& mirror, double silence);

  End run();

 private:
  link::ReplicaReceiver& syncer_;
  Mirror& mirror_;
  double silence_;
};

}  // namespace archipelago::runtime
