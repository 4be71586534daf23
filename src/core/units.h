#pragma once

#include <string>

namespace archipelago {

// "3.14": with so many digits behind the point.
std::string fixed_text(double value, int digits);

// "1.2345"; "1.23e+30" from a thousand on, where the digits would run over their column; "not
// finite".
std::string loss_text(double nats);

// "12.3 MiB": with the unit that leaves one to four digits before the point.
std::string bytes_text(double bytes);

// "0.04 s", "35 s", "12 min", "3.5 h", "8.1 days".
std::string seconds_text(double seconds);

}  // namespace archipelago
