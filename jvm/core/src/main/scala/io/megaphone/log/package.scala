// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The storage of a bin: an append-only log of records in memory, with indexes over it (`BinLog`).
  * It depends on its own packages and on `errors`, and on no library but the standard ones. A
  * caller may rely on a settled prefix never changing, and on `undo` restoring the log as it was
  * settled.
  */
package object log
