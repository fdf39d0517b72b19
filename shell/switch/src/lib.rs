//! Assembly: owns the rest and applies plans.
