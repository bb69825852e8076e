package leafseal

func (c condition) fits(is bool) bool {
	return c == isAny || (c == isTrue) == is
}

// action is what the rules say about a failed request.
func (o outcome) action(err *Error) action {
	event := err.Code
	switch {
	case o.response != nil:
		event = "answer"
	case err.FromEngine:
		event = "connection_error"
	}
	for _, rule := range outcomeRules {
		if rule.event == event && isCode(rule.code, err.Code) && rule.sent.fits(o.isSent) && rule.elsewhere.fits(o.isElsewhere) {
			return rule.action
		}
	}
	return actionFail
}

// avoids returns whether an engine is avoided after an event, and whether a success ends that.
func avoids(event, code string) (untilSuccess, isAvoided bool) {
	for _, rule := range avoidRules {
		if rule.event == event && isCode(rule.code, code) {
			return rule.untilSuccess, true
		}
	}
	return false, false
}

// earns returns whether a success of a method shows that the engine serves requests.
func earns(method string) bool {
	return !ruleEarnedExcept[method]
}

func isCode(pattern, code string) bool {
	return pattern == "" || pattern == "*" || pattern == code
}
