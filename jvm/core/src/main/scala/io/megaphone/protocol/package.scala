// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The driver's part of the protocol as a pure state machine: events in, commands out. It depends
  * on `errors`, `format`, `plan` and the plan log's records, on the keys of replicas in `state` and
  * on the duties in `transfer`, and has no thread, no clock and no file. A caller may rely on a
  * batch's tables: once handed out for a batch they never change.
  */
package object protocol
