# What a plan may not hold. Each message says which object is meant and what to do about it.
#
#   lancens plan -o plan.json
#   opa eval --fail-defined --data examples/policy --data day.json --input plan.json 'data.lancens.deny[_]'
#
# exits 1 when anything is denied. The day is data, so that a check gives the same answer whenever it is run again:
# day.json holds `{"today": "Friday"}`, or is left out.
package lancens

makes_a_table := {"create-table", "declare-table", "register-table", "update-table", "alter-table", "relocate-table"}

removes := {"deregister-table", "drop-namespace"}

address(change) := concat("/", array.concat([change.catalog], change.identifier))

# Every table has an owner.
deny contains message if {
	some change in input.changes
	change.action in makes_a_table
	not change.after.properties.owner
	message := sprintf("%s has no owner: write `properties: {owner: TEAM}` at %s:%d", [
		address(change),
		change.source.file,
		change.source.line,
	])
}

# Nothing is deregistered on a Friday.
deny contains message if {
	data.today == "Friday"
	some change in input.changes
	change.action in removes
	message := sprintf("%s would be taken out of its catalog, and it is Friday: apply this on Monday", [address(change)])
}
