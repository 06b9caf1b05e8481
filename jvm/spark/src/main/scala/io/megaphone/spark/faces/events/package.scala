// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** What happens to the state of queries, as events in Spark's listener bus and its event log. The
  * tab is made of them alone, live and in the history server. It depends on `driver`, on
  * `faces.json` and on the core's `view`. A caller may rely on no batch waiting for an event.
  */
package object events
