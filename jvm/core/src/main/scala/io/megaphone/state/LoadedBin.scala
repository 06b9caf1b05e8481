// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.Chain
import io.megaphone.log.BinLog

/** A settled bin on its way into a holding: its number, its log, the chain that rebuilds it, and
  * what of it is still elsewhere.
  */
final case class LoadedBin(bin: Int, log: BinLog, chain: Chain, remote: Option[Remote] = None)
