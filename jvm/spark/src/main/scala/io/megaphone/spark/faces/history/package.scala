// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** What is kept of the events, live and in the history server: the newest about each thing, as rows
  * in the store of Spark's UI, and facts that are read from them. It depends on `faces.events`,
  * `faces.json`, `conf` and `metrics`. A caller may rely on a damaged event costing what that event
  * told, and nothing else.
  */
package object history
