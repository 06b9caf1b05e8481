// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The driver's half of the protocol as a pure state machine: events in, commands out. It depends
  * on the plan log's records and on the names of replicas, and has no thread, no clock and no file.
  * A caller may rely on a batch's tables: once handed out for a batch they never change.
  */
package object protocol
