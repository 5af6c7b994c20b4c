// Places the boxes of the map.
