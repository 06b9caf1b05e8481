// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** The SQL face: a catalog with procedures, which make and steer plans, and tables, which show the
  * state. It reaches every client that can run SQL: any language, a notebook, Spark Connect. It
  * depends on `driver` and on the core's `errors`, `plan` and `view`. A caller may rely on a
  * procedure that throws having changed nothing, unless the plan log or the commit log could not be
  * written or read, and on an error having a condition and an SQLSTATE.
  */
package object sql
