package nemesis

func diskFaults() []fault { return nil }
