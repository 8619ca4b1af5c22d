//! The binary. Everything is in the library.

fn main() -> std::process::ExitCode {
    gimlet::cli::main()
}
