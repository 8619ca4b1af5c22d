//! What `diff` promises: its layout by fixtures, that nothing is hidden by properties.

use super::*;
