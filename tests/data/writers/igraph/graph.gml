Creator "igraph"
Version 1
graph
[
  directed 1
  node
  [
    id 0
    name "ann"
  ]
  node
  [
    id 1
    name "bob"
  ]
  node
  [
    id 2
    name "cid"
  ]
  node
  [
    id 3
    name "dan"
  ]
  edge
  [
    source 0
    target 1
    weight 0.5
  ]
  edge
  [
    source 1
    target 2
    weight 1.25
  ]
  edge
  [
    source 2
    target 0
    weight 2.75
  ]
  edge
  [
    source 0
    target 3
    weight 1
  ]
]
