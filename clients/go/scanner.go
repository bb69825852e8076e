package leafseal

import "errors"

const (
	depthMax    = 32
	elementsMax = 1 << 24
)

var (
	errNotMessagePack = errors.New("the byte c1 is not MessagePack")
	errExtension      = errors.New("extension types are not part of the protocol")
	errElements       = errors.New("a container has too many elements")
	errDepth          = errors.New("too many containers inside one another")
)

// scanner finds the end of a MessagePack value in bytes that arrive in pieces. No byte is looked at twice, and nothing is allocated for
// lengths that a peer claims. The library can only start again from the first byte.
type scanner struct {
	// open has the number of values that are still to come in each open container.
	open  [depthMax]uint64
	depth int
	// payload is the number of bytes of the current value's content that are still to come.
	payload uint64
	// lengthLeft bytes of the current head's length are still to come; head is its first byte.
	lengthLeft int
	length     uint64
	head       byte
}

// scan takes the bytes that follow those of the last call. It returns the number of bytes up to the end of the value, or -1.
func (s *scanner) scan(bytes []byte) (int, error) {
	for at := 0; at < len(bytes); {
		complete := false
		if s.payload > 0 {
			step := min(s.payload, uint64(len(bytes)-at))
			at += int(step)
			s.payload -= step
			complete = s.payload == 0
		} else {
			var err error
			if complete, err = s.octet(bytes[at]); err != nil {
				return 0, err
			}
			at++
		}
		if complete && s.complete() {
			return at, nil
		}
	}
	return -1, nil
}

// octet takes a byte outside of content, and returns whether a value is complete.
func (s *scanner) octet(octet byte) (bool, error) {
	if s.lengthLeft > 0 {
		s.length = s.length<<8 | uint64(octet)
		s.lengthLeft--
		if s.lengthLeft > 0 {
			return false, nil
		}
		return s.counted(s.length)
	}
	s.head = octet
	switch {
	case octet < 0x80 || octet >= 0xe0 || octet == 0xc0 || octet == 0xc2 || octet == 0xc3:
		return true, nil
	case octet < 0x90:
		return s.container(2 * uint64(octet&0x0f))
	case octet < 0xa0:
		return s.container(uint64(octet & 0x0f))
	case octet < 0xc0:
		return s.content(uint64(octet & 0x1f))
	}
	switch octet {
	case 0xca, 0xce, 0xd2:
		return s.content(4)
	case 0xcb, 0xcf, 0xd3:
		return s.content(8)
	case 0xcc, 0xd0:
		return s.content(1)
	case 0xcd, 0xd1:
		return s.content(2)
	case 0xc4, 0xd9:
		s.lengthLeft, s.length = 1, 0
	case 0xc5, 0xda, 0xdc, 0xde:
		s.lengthLeft, s.length = 2, 0
	case 0xc6, 0xdb, 0xdd, 0xdf:
		s.lengthLeft, s.length = 4, 0
	case 0xc1:
		return false, errNotMessagePack
	default:
		return false, errExtension
	}
	return false, nil
}

func (s *scanner) counted(count uint64) (bool, error) {
	switch s.head {
	case 0xdc, 0xdd:
		if count > elementsMax {
			return false, errElements
		}
		return s.container(count)
	case 0xde, 0xdf:
		if count > elementsMax {
			return false, errElements
		}
		return s.container(2 * count)
	}
	return s.content(count)
}

func (s *scanner) content(size uint64) (bool, error) {
	s.payload = size
	return size == 0, nil
}

func (s *scanner) container(values uint64) (bool, error) {
	if s.depth == depthMax {
		return false, errDepth
	}
	if values > 0 {
		s.open[s.depth] = values
		s.depth++
	}
	return values == 0, nil
}

// complete notes that a value is complete, and returns whether the outermost one is.
func (s *scanner) complete() bool {
	for s.depth > 0 {
		s.open[s.depth-1]--
		if s.open[s.depth-1] > 0 {
			return false
		}
		s.depth--
	}
	return true
}
