//! The signature cache in front of the classifier.
