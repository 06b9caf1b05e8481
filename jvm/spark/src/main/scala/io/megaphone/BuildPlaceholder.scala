// SPDX-License-Identifier: Apache-2.0
package io.megaphone

import org.apache.spark.sql.SparkSession

private[megaphone] object BuildPlaceholder { def name(session: SparkSession): String = session.version }
