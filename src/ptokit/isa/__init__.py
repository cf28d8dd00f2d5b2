"""What PTO is: element types, layouts, operands, moves, and one file for each instruction."""
